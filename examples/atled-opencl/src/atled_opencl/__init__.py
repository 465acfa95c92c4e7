"""Backend `opencl` of atled: OpenCL devices through pyopencl, a worked example of a plugin by a third party."""
