"""neon's names: the modules whose contents atled.neon has under the same names, and what atled leaves out."""

from __future__ import annotations

from atled.compat.library import Library

_MODULES = {
    "neon": "atled.neon",
    **{
        f"neon.{name}": f"atled.neon.{name}"
        for name in (
            "backends",
            "backends.autodiff",
            "backends.backend",
            "backends.nervanacpu",
            "backends.nervanagpu",
            "backends.nervanamkl",
            "backends.util",
            "backends.util.check_gpu",
            "backends.util.check_mkl",
            "callbacks",
            "callbacks.callbacks",
            "data",
            "data.dataiterator",
            "initializers",
            "initializers.initializer",
            "layers",
            "layers.container",
            "layers.layer",
            "layers.recurrent",
            "models",
            "models.model",
            "optimizers",
            "optimizers.optimizer",
            "transforms",
            "transforms.activation",
            "transforms.cost",
            "transforms.transform",
            "util",
            "util.argparser",
            "util.persist",
        )
    },
}

_DOWNLOADS = (
    "atled has no data loaders that download",
    (
        "read the data with NumPy, pandas or scikit-learn (or write an iterator of your own), and pass the arrays to "
        "neon.data.ArrayIterator"
    ),
)
_FROM_FILES = (
    "atled does not have neon's readers of images, sound and text on disk",
    "read the files with a library for them, and pass the arrays to neon.data.ArrayIterator, or write an iterator",
)
_SENTENCES = (
    "atled leaves out Seq2Seq and SkipThought, with their encoders and decoders",
    (
        "build the two networks of neon.layers.Sequential or LSTM and GRU layers, with init_state of the second from "
        "final_state() of the first"
    ),
)
_DEVICES = (
    "atled computes on one device",
    "use gen_backend(backend='gpu'), with a smaller batch if memory is short",
)
_KERNELS = (
    "neon's kernels in CUDA C and assembler are not part of atled, whose plugins have kernels of their own",
    "call the backend instead of its kernels: an op-tree is compiled to one kernel (out[:] = tree; print(tree.plan))",
)
_VIEWER = (
    "atled does not have neon's plots of training",
    "read the file that Callbacks(..., output_file=...) writes with h5py, and plot it with matplotlib",
)

_ABSENT = {
    **{
        f"neon.data.{name}": _DOWNLOADS
        for name in (
            "BABI",
            "CIFAR10",
            "Dataset",
            "Flickr30k",
            "Flickr8k",
            "Coco",
            "HutterPrize",
            "I1Kmeta",
            "IMDB",
            "MNIST",
            "PTB",
            "QA",
            "SICK",
            "Shakespeare",
            "datasets",
            "load_babi",
            "load_cifar10",
            "load_flickr8k",
            "load_mnist",
            "load_text",
            "questionanswer",
        )
    },
    **{
        f"neon.data.{name}": _FROM_FILES
        for name in (
            "AeonDataLoader",
            "DataLoader",
            "HDF5Iterator",
            "HDF5IteratorAutoencoder",
            "HDF5IteratorOneHot",
            "ImageCaption",
            "ImageLoader",
            "Text",
            "TextNMT",
            "aeon_shim",
            "dataloader_transformers",
            "dataloaderadapter",
            "hdf5iterator",
            "image",
            "text",
            "text_preprocessing",
        )
    },
    **{f"neon.layers.{name}": _SENTENCES for name in ("Decoder", "Encoder", "Seq2Seq", "SkipThought")},
    **{f"neon.layers.container.{name}": _SENTENCES for name in ("Decoder", "Encoder", "Seq2Seq", "SkipThought")},
    **{f"neon.backends.{name}": _DEVICES for name in ("mgpu", "nervanamgpu")},
    **{
        f"neon.backends.{name}": _KERNELS
        for name in (
            "convolution",
            "cuda_batchnorm",
            "cuda_templates",
            "float_ew",
            "kernel_specs",
            "kernels",
            "layer_gpu",
            "pooling",
            "winograd",
            "winograd_conv",
        )
    },
    "neon.visualizations": _VIEWER,
}

NEON = Library(
    title="neon",
    name="neon",
    drop_in="atled.compat.neon",
    version="2.6.0",
    modules=_MODULES,
    absent=_ABSENT,
    remedies={
        "neon.data": "read the data with another library, and pass the arrays to neon.data.ArrayIterator",
        "neon.backends": "call what the backend has: dir(be) lists it",
    },
)
