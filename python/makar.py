"""makar from Python, through ctypes: no build step. Needs libmakar.so (make build, or make install).

    import makar
    model = makar.Model("models/world.gguf")
    print(model.generate("Tell me a story about Anna and Ben.", chat=True))
    for piece in model.stream("Tell me a story about Anna and Tom.", chat=True): print(piece, end="")
    model.embed("a text"); model.loglikelihood("The sky is", " blue"); model.tokenize("a text")
"""
import ctypes
import ctypes.util
import json
import os
import pathlib
import queue
import threading

_TEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class Error(Exception):
    """The library's message for a failed call."""


def _find():
    """MAKAR_LIBRARY, the build folder of this clone, the folder that make install uses, or the system's library path."""
    here = pathlib.Path(__file__).resolve().parent
    places = [here.parent / "build" / "libmakar.so", here.parents[1] / "libmakar.so", here.parents[1] / "lib" / "libmakar.so"]
    override = os.environ.get("MAKAR_LIBRARY")
    for place in ([pathlib.Path(override)] if override else places):
        if place.is_file():
            return str(place)
    found = ctypes.util.find_library("makar")
    if not found:
        raise Error("libmakar.so was not found; run make build, or set MAKAR_LIBRARY to its path")
    return found


def _load():
    lib = ctypes.CDLL(_find())
    text, number, pointer = ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p
    for name, result, arguments in (
            ("version", text, []), ("last_error", text, []), ("open", pointer, [text, ctypes.c_int]), ("close", None, [pointer]),
            ("free", None, [pointer]), ("tokenize", number, [pointer, text, ctypes.POINTER(number), number]),
            ("detokenize", pointer, [pointer, ctypes.POINTER(number), number]),
            ("generate", pointer, [pointer, text, text, _TEXT, pointer]),
            ("embed", number, [pointer, text, ctypes.POINTER(ctypes.c_float), number]),
            ("loglikelihood", number, [pointer, text, text, ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int)])):
        function = getattr(lib, "makar_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


_lib = _load()


def version():
    return _lib.makar_version().decode()


def _last_error():
    return Error(_lib.makar_last_error().decode("utf-8", "replace"))


def _to_str(address):
    """Converts a text that the library allocated to str, and frees it."""
    if not address:
        raise _last_error()
    try:
        return ctypes.string_at(address).decode("utf-8", "replace")
    finally:
        _lib.makar_free(address)


class Model:
    """A Hugging Face folder or a GGUF file. threads: 0 for one per core."""

    def __init__(self, path, threads=0):
        self._model = None
        self._model = _lib.makar_open(os.fsencode(path), threads)
        if not self._model:
            raise _last_error()

    def close(self):
        if self._model:
            _lib.makar_close(self._model)
        self._model = None

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def tokenize(self, text):
        data = text.encode()
        count = _lib.makar_tokenize(self._model, data, None, 0)
        if count < 0:
            raise _last_error()
        ids = (ctypes.c_int64 * count)()
        _lib.makar_tokenize(self._model, data, ids, count)
        return list(ids)

    def detokenize(self, ids):
        return _to_str(_lib.makar_detokenize(self._model, (ctypes.c_int64 * len(ids))(*ids), len(ids)))

    def generate(self, prompt, on_text=None, **options):
        """The continuation of a prompt. options: max_tokens, chat, stop, temperature, top_p, seed, ... as in makar serve.
        on_text(piece) is called with each piece of text; a true result stops the generation."""
        failure = []

        def call(piece, _):
            try:
                return 1 if on_text(piece.decode("utf-8", "replace")) else 0
            except BaseException as error:  # must not reach the C code
                failure.append(error)
                return 1

        callback = _TEXT(call) if on_text else _TEXT()
        address = _lib.makar_generate(self._model, prompt.encode(), json.dumps(options).encode(), callback, None)
        if failure:
            if address:
                _lib.makar_free(address)
            raise failure[0]
        return _to_str(address)

    def stream(self, prompt, **options):
        """The pieces of the continuation as they are generated."""
        pieces, stop = queue.Queue(), threading.Event()

        def work():
            try:
                self.generate(prompt, on_text=lambda piece: pieces.put(piece) or stop.is_set(), **options)
                pieces.put(None)
            except BaseException as error:
                pieces.put(error)

        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        try:
            while (piece := pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            stop.set()
            worker.join()

    def embed(self, text):
        """The embedding of a text, as a list of floats."""
        data = text.encode()
        width = _lib.makar_embed(self._model, data, None, 0)
        if width < 0:
            raise _last_error()
        vector = (ctypes.c_float * width)()
        if _lib.makar_embed(self._model, data, vector, width) < 0:
            raise _last_error()
        return list(vector)

    def loglikelihood(self, context, continuation):
        """The log-probability of the continuation, and whether each of its tokens was the most probable one."""
        value, greedy = ctypes.c_double(), ctypes.c_int()
        if _lib.makar_loglikelihood(self._model, context.encode(), continuation.encode(), ctypes.byref(value), ctypes.byref(greedy)) < 0:
            raise _last_error()
        return value.value, bool(greedy.value)
