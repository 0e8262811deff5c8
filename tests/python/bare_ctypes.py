"""The C API with nothing but ctypes: write, hflush, read back while open, close, list.

Arguments: path of libdfs.so, URI of a file system, a directory on it for this run.
"""
import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64
from ctypes import c_uint8, c_void_p


class FileInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32),
        ("kind", c_int32),
        ("length", c_uint64),
        ("block_size", c_uint64),
        ("mtime_ms", c_uint64),
        ("atime_ms", c_uint64),
        ("file_id", c_uint64),
        ("child_count", c_int64),
        ("mode", c_uint32),
        ("replication", c_uint32),
        ("path", c_char_p),
        ("path_len", c_size_t),
        ("name", c_char_p),
        ("name_len", c_size_t),
        ("owner", c_char_p),
        ("owner_len", c_size_t),
        ("group", c_char_p),
        ("group_len", c_size_t),
        ("symlink", c_char_p),
        ("symlink_len", c_size_t),
        ("storage_policy", c_uint32),
        ("has_acl", c_uint8),
        ("encrypted", c_uint8),
        ("erasure_coded", c_uint8),
        ("reserved", c_uint8),
    ]


READ, WRITE, CREATE, OVERWRITE, CREATE_PARENTS = 1, 2, 4, 8, 32
E_NOT_FOUND, E_BAD_HANDLE = -300, -8

dfs = ctypes.CDLL(sys.argv[1])
dfs.dfs_error_message.restype = c_char_p
dfs.dfs_error_message.argtypes = [c_void_p, c_void_p]
dfs.dfs_error_remote_class.restype = c_char_p
dfs.dfs_error_remote_class.argtypes = [c_void_p, c_void_p]
dfs.dfs_error_free.argtypes = [c_void_p]
dfs.dfs_error_free.restype = None
dfs.dfs_version_string.restype = c_char_p
dfs.dfs_connect.argtypes = [c_void_p, c_char_p, POINTER(c_void_p), POINTER(c_void_p)]
dfs.dfs_open.argtypes = [c_void_p, c_char_p, c_int32, c_void_p, POINTER(c_void_p), POINTER(c_void_p)]
dfs.dfs_write.restype = c_int64
dfs.dfs_write.argtypes = [c_void_p, c_char_p, c_size_t, POINTER(c_void_p)]
dfs.dfs_hflush.argtypes = [c_void_p, POINTER(c_void_p)]
dfs.dfs_close.argtypes = [c_void_p, POINTER(c_void_p)]
dfs.dfs_read.restype = c_int64
dfs.dfs_read.argtypes = [c_void_p, c_void_p, c_size_t, POINTER(c_void_p)]
dfs.dfs_pread.restype = c_int64
dfs.dfs_pread.argtypes = [c_void_p, c_uint64, c_void_p, c_size_t, POINTER(c_void_p)]
dfs.dfs_list.argtypes = [c_void_p, c_char_p, POINTER(c_void_p), POINTER(c_void_p)]
dfs.dfs_list_next.argtypes = [c_void_p, POINTER(FileInfo), POINTER(c_void_p)]
dfs.dfs_delete.argtypes = [c_void_p, c_char_p, c_int32, POINTER(c_void_p)]
for name in ("dfs_file_free", "dfs_fs_free", "dfs_list_free"):
    getattr(dfs, name).argtypes = [c_void_p]
    getattr(dfs, name).restype = None


def call(name, *arguments):
    """Calls a function whose last parameter is the error; raises what it reports."""
    error = c_void_p()
    result = getattr(dfs, name)(*arguments, byref(error))
    if result < 0:
        message = dfs.dfs_error_message(error, None).decode()
        remote = dfs.dfs_error_remote_class(error, None)
        dfs.dfs_error_free(error)
        raise OSError(result, f"{name}: {message} ({remote})")
    return result


def open_file(fs, path, flags):
    file = c_void_p()
    call("dfs_open", fs, path.encode(), flags, None, byref(file))
    return file


def main():
    uri, base = sys.argv[2], sys.argv[3]
    fs = c_void_p()
    call("dfs_connect", None, uri.encode(), byref(fs))
    # Handles are 64-bit numbers: had one been cut to an int, it would be refused here.
    path = f"{base}/größe.log"
    lines = [f"line {i}\n".encode() for i in range(100)]
    writer = open_file(fs, path, WRITE | CREATE | OVERWRITE | CREATE_PARENTS)
    for line in lines:
        assert call("dfs_write", writer, line, len(line)) == len(line)
    call("dfs_hflush", writer)

    expected = b"".join(lines)
    reader = open_file(fs, path, READ)
    buffer = ctypes.create_string_buffer(1 << 16)
    n = call("dfs_read", reader, buffer, len(buffer))
    assert buffer.raw[:n] == expected, "what was flushed is read back while the file is open"
    n = call("dfs_pread", reader, 10, buffer, 20)
    assert buffer.raw[:n] == expected[10:30]
    call("dfs_close", reader)
    dfs.dfs_file_free(reader)
    call("dfs_close", writer)
    dfs.dfs_file_free(writer)

    entries = c_void_p()
    call("dfs_list", fs, base.encode(), byref(entries))
    info = FileInfo(size=ctypes.sizeof(FileInfo))
    seen = []
    while call("dfs_list_next", entries, byref(info)):
        seen.append((info.path.decode(), info.length, info.kind))
    dfs.dfs_list_free(entries)
    assert seen == [(path, len(expected), 1)], seen

    try:
        open_file(fs, f"{base}/none", READ)
        raise AssertionError("a missing file was opened")
    except OSError as e:
        assert e.errno == E_NOT_FOUND and f"{base}/none" in e.strerror, e
    try:
        call("dfs_write", writer, b"x", 1)
        raise AssertionError("a freed handle was accepted")
    except OSError as e:
        assert e.errno == E_BAD_HANDLE, e
    assert call("dfs_delete", fs, base.encode(), 1) == 1
    dfs.dfs_fs_free(fs)
    print("libdfs", dfs.dfs_version_string().decode(), "works with ctypes")


main()
