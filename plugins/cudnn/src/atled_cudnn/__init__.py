"""Backend `cudnn` of atled: convolution and pooling on NVIDIA GPUs by the graph API of cuDNN 9."""
