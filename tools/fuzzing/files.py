"""Damaged files: whole ones that the library wrote, with bytes changed, and some that were made with intent."""

from __future__ import annotations

import atexit
import functools
import io
import os
import shutil
import struct
import tempfile
import wave
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.files.parameters import FORMATS
from atled.utils.data_iterator import data_iterator_cache, data_iterator_csv_dataset
from atled.utils.data_source import DataSourceWithFileCache
from atled.utils.data_source_implements import SimpleDataSource
from atled.utils.image_utils import imread, imsave
from atled.utils.load import load
from atled.utils.nnp_graph import NnpLoader
from atled.utils.save import save
from fuzzing.calls import Attempt
from fuzzing.judging import WrongError

_BOMB_BYTES = 3 << 30
_DAMAGES = ("cut", "flip", "flip", "flip", "zeros", "ones", "noise", "remove", "repeat", "insert", "int")
_INSERTED = (b"\0", b"\r", b"\n", b'"', b",", b"\xff", b"9" * 400, b"-")


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="atled-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def _network() -> Path:
    """A folder with whole files: parameters in each format, and a network."""
    folder = _folder() / "whole"
    folder.mkdir()
    nn.clear_parameters()
    x = nn.Variable((4, 1, 8, 8))
    h = PF.batch_normalization(PF.convolution(x, 3, (3, 3), name="c"), name="b")
    y = F.softmax(PF.affine(F.relu(h), 5, name="a"))
    networks = [{"name": "net", "batch_size": 4, "outputs": {"y": y}, "names": {"x": x}}]
    executors = [{"name": "runtime", "network": "net", "data": ["x"], "output": ["y"]}]
    for suffix in (".nnp", ".nntxt", ".protobuf"):
        save(str(folder / f"net{suffix}"), {"networks": networks, "executors": executors})
    save(str(folder / "parameters.nnp"), {"networks": networks})
    for suffix in (suffix for suffix in FORMATS if suffix != ".nnp"):  # which holds a network, too
        nn.save_parameters(str(folder / f"parameters{suffix}"))
    nn.clear_parameters()
    return folder


@functools.cache
def _data() -> Path:
    """A folder with a table of samples, the files that it names, and a cache."""
    folder = _folder() / "data"
    folder.mkdir()
    rng = np.random.default_rng(0)
    np.save(folder / "a.npy", rng.standard_normal((3, 2)).astype(np.float32))
    (folder / "b.csv").write_text("1,2\n3,4\n5,6\n", "utf-8")
    imsave(str(folder / "c.png"), rng.integers(0, 256, (6, 5, 3)).astype(np.uint8))
    with wave.open(str(folder / "d.wav"), "wb") as sound:
        sound.setnchannels(2)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(rng.integers(0, 256, 160).astype(np.uint8).tobytes())
    rows = ["x,y__0,y__1,z,s", *("a.npy,1,2.5,c.png,d.wav" for _ in range(3)), "b.csv,-1,nan,c.png,d.wav"]
    (folder / "table.csv").write_text("\n".join(rows) + "\n", "utf-8")
    source = SimpleDataSource(lambda i: (np.full((2, 2), i, np.float32), np.array([i])), 7)
    (folder / "cache").mkdir()
    DataSourceWithFileCache(source, cache_dir=str(folder / "cache")).close()
    return folder


def draw(seed: int, number: int) -> Attempt:
    """The attempt of a number, the same for equal seeds."""
    rng = Random(f"files {seed} {number}")
    kinds = (_parameters, _parameters, _parameters, _networks, _networks, _table, _table, _cache, _image, _made)
    return rng.choice(kinds)(rng)


def after() -> None:
    """Whether the library still saves and loads; WrongError if not."""
    _network()
    _data()
    nn.clear_parameters()
    shutil.rmtree(_folder() / "tried", ignore_errors=True)


def _tried() -> Path:
    folder = _folder() / "tried"
    folder.mkdir(exist_ok=True)
    return folder


# Readers.


def _read_parameters(path: Path) -> None:
    """Load into a scope that holds a parameter already, which a refused file must leave alone."""
    nn.clear_parameters()
    mine = nn.parameter.get_parameter_or_create("mine", (2,), np.array([1.0, 2.0]))
    try:
        nn.load_parameters(str(path))
    except Exception:
        if list(nn.get_parameters(grad_only=False)) != ["mine"] or mine.d.tolist() != [1.0, 2.0]:
            raise WrongError(f"{path.name} was refused and has changed parameters") from None
        raise
    for key, parameter in nn.get_parameters(grad_only=False).items():
        if parameter.d.shape != parameter.shape or parameter.d.dtype != np.float32:
            raise WrongError(f"parameter {key!r} has shape {parameter.shape} and values {parameter.d.shape}")


def _read_network(path: Path) -> None:
    loaded = load(str(path))
    for executor in loaded.executors.values():
        executor.forward(**dict.fromkeys(executor.dataset_assign.values(), 0.5))


def _read_with_loader(path: Path) -> None:
    nnp = NnpLoader(str(path))
    for name in nnp.get_network_names():
        network = nnp.get_network(name, batch_size=2)
        network.forward()
        for output in network.outputs.values():
            output.d  # noqa: B018  # makes the values


def _read_table(path: Path) -> None:
    with data_iterator_csv_dataset(str(path), 2, with_file_cache=False, use_thread=False) as batches:
        for _ in range(2):
            batches.next()


def _read_cache(path: Path) -> None:
    with data_iterator_cache(str(path), 2, use_thread=False) as batches:
        for _ in range(4):
            batches.next()


# Damage.


def _damaged(rng: Random, whole: bytes) -> tuple[str, bytes]:
    """What was done, and the bytes after it."""
    image = bytearray(whole)
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        place = rng.randrange(len(image) + 1)
        # Headers are where damage leads furthest.
        if rng.random() < 0.3:
            place = min(place, rng.randrange(1, 200))
        length = rng.choice((1, 1, 2, 4, 8, 64, 1000))
        kind = rng.choice(
            ("cut", "flip", "flip", "flip", "zeros", "ones", "noise", "remove", "repeat", "insert", "int")
        )
        if kind == "cut":
            del image[place:]
        elif kind == "flip" and place < len(image):
            image[place] ^= 1 << rng.randrange(8)
        elif kind == "zeros":
            image[place : place + length] = bytes(len(image[place : place + length]))
        elif kind == "ones":
            image[place : place + length] = b"\xff" * len(image[place : place + length])
        elif kind == "noise":
            image[place : place + length] = rng.randbytes(length)
        elif kind == "remove":
            del image[place : place + length]
        elif kind == "repeat":
            image[place:place] = image[place : place + length] * rng.choice((1, 2, 50))
        elif kind == "int":
            width = rng.choice((2, 4, 8))
            number = rng.choice((0, 1, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)) % 2 ** (8 * width)
            image[place : place + width] = number.to_bytes(width, "little")
        else:
            image[place:place] = rng.choice(
                (b"\0", b"\r", b"\n", b'"', b",", b"\xff", b"9" * 400, b"-", rng.randbytes(8))
            )
        done.append(f"{kind} at {place}")
    return ", ".join(done), bytes(image)


def _attempt(rng: Random, whole: Path, read: Callable[[Path], None]) -> Attempt:
    text, image = _damaged(rng, whole.read_bytes())

    def run() -> None:
        path = _tried() / whole.name
        path.write_bytes(image)
        read(path)

    return Attempt(f"{read.__name__.strip('_')} {whole.name}: {text}", run)


def _parameters(rng: Random) -> Attempt:
    return _attempt(rng, _network() / f"parameters{rng.choice(list(FORMATS))}", _read_parameters)


def _networks(rng: Random) -> Attempt:
    whole = _network() / f"net{rng.choice(('.nnp', '.nntxt', '.protobuf'))}"
    if whole.suffix == ".nnp" and rng.random() < 0.5:
        return _entry_damaged(rng, whole)
    return _attempt(rng, whole, rng.choice((_read_network, _read_with_loader)))


def _entry_damaged(rng: Random, whole: Path) -> Attempt:
    """A whole archive with a damaged entry: what no checksum of the archive tells."""
    with zipfile.ZipFile(whole) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(entries))
    text, entries[name] = _damaged(rng, entries[name])

    def run() -> None:
        path = _tried() / whole.name
        with zipfile.ZipFile(path, "w") as archive:
            for key, data in entries.items():
                archive.writestr(key, data)
        rng.choice((_read_network, _read_with_loader, _read_parameters))(path)

    return Attempt(f"{whole.name}, entry {name}: {text}", run)


def _in_copy(rng: Random, folder: Path, name: str, read: Callable[[Path], None], opened: str) -> Attempt:
    text, image = _damaged(rng, (folder / name).read_bytes())

    def run() -> None:
        copy = _tried() / folder.name
        shutil.copytree(folder, copy)
        (copy / name).write_bytes(image)
        read(copy / opened)

    return Attempt(f"{read.__name__.strip('_')}, {name}: {text}", run)


def _table(rng: Random) -> Attempt:
    name = rng.choice(("table.csv", "table.csv", "a.npy", "b.csv", "c.png", "d.wav"))
    return _in_copy(rng, _data(), name, _read_table, "table.csv")


def _cache(rng: Random) -> Attempt:
    folder = _data() / "cache"
    return _in_copy(rng, folder, rng.choice(sorted(os.listdir(folder))), _read_cache, "")


def _image(rng: Random) -> Attempt:
    return _attempt(rng, _data() / "c.png", imread)


# Files made with intent.


def _made(rng: Random) -> Attempt:
    make = rng.choice((_bomb, _bomb_in_table, _odd_zip, _odd_zip, _special, _special, _foreign, _odd_table, _odd_table))
    return make(rng)


def _bomb(rng: Random) -> Attempt:
    """An archive whose entry unpacks to gigabytes, whatever its directory says."""
    name = rng.choice(("parameter.h5", "network.nntxt", "parameter.protobuf"))
    lies = rng.random() < 0.5
    read = rng.choice((_read_parameters, _read_network))

    def run() -> None:
        path = _tried() / "bomb.nnp"
        path.write_bytes(_bomb_image(name, lies))
        read(path)
        raise WrongError("an entry of gigabytes was read")

    return Attempt(
        f"{read.__name__.strip('_')}, archive with {_BOMB_BYTES} bytes of zeros in {name}, lies: {lies}", run
    )


@functools.cache
def _bomb_image(name: str, lies: bool) -> bytes:
    # A block that begins and ends on its own can be repeated as it is.
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)
    data = block * (_BOMB_BYTES >> 24) + packer.flush()
    size = 1000 if lies else _BOMB_BYTES
    common = struct.pack("<HHHHHLLLHH", 20, 0, 8, 0, 33, 0, len(data), size, len(name), 0)
    local = b"PK\3\4" + common + name.encode()
    central = b"PK\1\2" + struct.pack("<H", 20) + common + struct.pack("<HHHLL", 0, 0, 0, 0, 0) + name.encode()
    start = len(local) + len(data)
    return local + data + central + b"PK\5\6" + struct.pack("<HHHHLLH", 0, 0, 1, 1, len(central), start, 0)


def _bomb_in_table(rng: Random) -> Attempt:
    """A file of a table that says it holds gigabytes."""
    kind = rng.choice(("npy", "png"))

    def run() -> None:
        path = _tried() / "table.csv"
        path.write_text(f"x\nbig.{kind}\n", "utf-8")
        if kind == "npy":
            header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }\n" % (1 << 50)
            (path.parent / "big.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header)
        else:
            imsave(str(path.parent / "big.png"), np.zeros((2, 2), np.uint8))
            image = bytearray((path.parent / "big.png").read_bytes())
            image[16:24] = struct.pack(">II", 100_000, 100_000)
            image[29:33] = struct.pack(">I", zlib.crc32(bytes(image[12:29])))
            (path.parent / "big.png").write_bytes(bytes(image))
        _read_table(path)

    return Attempt(f"a table with a .{kind} whose header says it is huge", run)


def _odd_zip(rng: Random) -> Attempt:
    """An archive with features that the format allows and no .nnp has: encryption, other methods, odd names."""
    field = rng.choice(("method", "flags", "version", "name", "date", "local"))
    number = rng.choice((0, 1, 9, 12, 14, 97, 99, 0x41, 0x2000, 0xFFFF))

    def run() -> None:
        image = bytearray((_network() / "net.nnp").read_bytes())
        start = image.rindex(b"PK\1\2")
        offsets = {"version": 6, "flags": 8, "method": 10, "date": 14, "local": 42, "name": 28}
        image[start + offsets[field] : start + offsets[field] + 2] = struct.pack("<H", number)
        if field in ("method", "flags"):
            image[6:8] = struct.pack("<H", number if field == "flags" else 0)
            image[8:10] = struct.pack("<H", number if field == "method" else 8)
        path = _tried() / "odd.nnp"
        path.write_bytes(bytes(image))
        rng.choice((_read_network, _read_parameters))(path)

    return Attempt(f"net.nnp with {field} {number} in its directory", run)


def _special(rng: Random) -> Attempt:
    """Something that is no file where one is expected."""
    kind = rng.choice(("folder", "pipe", "loop", "missing", "empty", "device"))
    names = ("p.h5", "p.protobuf", "p.nntxt", "p.nnp", "a.npy", "b.csv", "c.png", "d.wav", "table.csv")
    name = rng.choice(names)

    def run() -> None:
        folder = _tried()
        path = folder / name
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "loop":
            path.symlink_to(path)
        elif kind == "empty":
            path.touch()
        elif kind == "device":
            path.symlink_to("/dev/zero")
        if name[0] == "p":
            _read_parameters(path)
        elif name == "table.csv":
            _read_table(path)
        else:
            (folder / "table.csv").write_text(f"x\n{name}\n{name}\n", "utf-8")
            _read_table(folder / "table.csv")

    return Attempt(f"{name} is {kind}", run)


def _foreign(rng: Random) -> Attempt:
    """A file of another format under the name of one."""
    sources = [*sorted(_network().iterdir()), _data() / "a.npy", _data() / "c.png", _data() / "table.csv"]
    source = rng.choice(sources)
    suffix = rng.choice((*FORMATS, ".csv", ".npy", ".png", ".wav"))

    def run() -> None:
        path = _tried() / f"p{suffix}"
        shutil.copy(source, path)
        if suffix in FORMATS:
            rng.choice((_read_parameters, _read_with_loader))(path)
        else:
            (path.parent / "table.csv").write_text(f"x\n{path.name}\n", "utf-8")
            _read_table(path.parent / "table.csv")

    return Attempt(f"{source.name} named p{suffix}", run)


def _odd_table(rng: Random) -> Attempt:
    """A table with odd lines, as the samples or as a file of one."""
    lines = ["1,2,3", "1,2", "1", "", "\0", "1,\0,3", ",,", '"1', '"1"2', "nan,inf,-inf", "1e999,0,0", "x" * 200_000]
    lines += ["a.npy,b,c", "../a,b,c", "/etc/passwd,1,2", "/dev/stdin,1,2", ".,..,/", "\ufeff1,2,3", "\u0661,2,3"]
    lines += ["http://x/y.npy,1,2", "1,2,3,4", "\ud800,1,2", "~,$HOME,*", ".npy,.png,.wav", "1_0,0x1,1e"]
    rows = [rng.choice(("x,y,z", "x", "#x,y,z", "x,x,x", "x__0,x__a,x__", ":,:,:", "", rng.choice(lines)))]
    rows += [rng.choice(lines) for _ in range(rng.randrange(4))]
    inner = rng.random() < 0.4
    image = rng.choice(("\n", "\r", "\r\n")).join(rows).encode("utf-8", "surrogatepass")

    def run() -> None:
        path = _tried() / "table.csv"
        path.write_bytes(b"x\nt.csv\nt.csv\n" if inner else image)
        (path.parent / "t.csv").write_bytes(image)
        _read_table(path)

    return Attempt(f"{'file of a ' if inner else ''}table {image[:150]!r}", run)


def whole_files_load() -> None:
    """Read every file undamaged; raises what is raised."""
    folder = _network()
    for path in sorted(folder.iterdir()):
        (_read_parameters if path.name.startswith("parameters") else _read_network)(path)
    _read_table(_data() / "table.csv")
    _read_cache(_data() / "cache")
    imread(io.BytesIO((_data() / "c.png").read_bytes()))
