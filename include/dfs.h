/*
 * dfs.h: C API of libdfs, a native client of HDFS.
 *
 * Generated from src/capi by `xtask header`; changes belong there.
 *
 * LINKING
 *
 * cc program.c $(pkg-config --cflags --libs dfs). The library is libdfs.so.0 or libdfs.a; the
 * header is C99 and C++. It is self-contained: no Java, no init call. It installs no signal or
 * exit handler, prints nothing, changes neither environment, locale nor umask, and only names
 * that begin with dfs_, dfs or DFS_ belong to it. It starts at most six threads of its own, with
 * all signals blocked. After dlclose it stays loaded.
 *
 * RESULTS AND ERRORS
 *
 * A negative result is one of DFS_E_*; 0 or more is success. errno means nothing, and no state
 * belongs to a thread. The last parameter `error` may be NULL, and then nothing is allocated for
 * it; otherwise a failure stores an error object there, which the caller frees. Success leaves
 * it alone, and what was in it is overwritten, not freed: start with NULL. The object has the
 * message, the server's exception and whether a retry makes sense, so that no table of numbers is
 * needed. On failure an `out` parameter becomes NULL. Functions without `error` return the
 * status alone. New statuses may appear: treat an unknown one as a failure.
 *
 * A write failure that dfs_error_is_fatal reports is final: the file returns it from then on.
 *
 * HANDLES AND OWNERSHIP
 *
 * A handle is a number in the shape of a pointer, never an address: a freed handle, one of another
 * kind or a stray value is recognised (DFS_E_BAD_HANDLE) for as long as the process lives. What an
 * `out` parameter receives belongs to the caller, who frees it with the `_free` function of its
 * type. Free accepts NULL, cannot fail and never waits for the network: dfs_close is the end of a
 * file that can fail. Handles may be freed in any order, also while calls on them run: what the
 * calls need lives until they return. A text that a function returns belongs to the object it came
 * from and lives until that is freed, unless said otherwise. Memory that is passed in is not kept.
 *
 * STRINGS, NUMBERS AND POINTERS
 *
 * Strings passed in are NUL-terminated UTF-8. Strings that come out are that too, and have their
 * length beside them. Pointers passed in must be valid for what the function says; NULL, bad UTF-8
 * and impossible lengths are recognised, wild pointers are not. A struct that begins with `size`
 * may grow in later releases: set `size` to sizeof of it, and the fields to 0. A caller of an
 * older release is understood; a newer one too, as long as the fields that this library does not
 * know are 0 (else DFS_E_UNSUPPORTED). All other structs are opaque or final.
 *
 * THREADS
 *
 * Every function may be called on any thread. Each says "concurrent", if calls on one handle may
 * run at the same time, or "one at a time per handle". Locks are inside; there is no
 * thread-local state, so a handle may move between threads freely. Calls are done by the calling
 * thread itself. A panic in the library, which would be a defect, becomes DFS_E_PANIC, and the
 * handle can then only be freed.
 *
 * DEADLINES
 *
 * No wait is unbounded unless the configuration says so. Every function names the configuration
 * key that bounds its single steps. Over all steps of a call there is the limit of its handle:
 * `libdfs.call.timeout.ms` (0 is none), dfs_fs_set_timeout for the calls on a file system,
 * dfs_open_options.timeout_ms for a file and its opening, dfs_file_set_timeout for the later
 * calls on a file. To limit one call alone, set the limit before it: that costs a few
 * nanoseconds. A call that runs out of time returns DFS_E_TIMED_OUT, and the handle stays usable.
 *
 * FORK
 *
 * In a child of fork(), file systems, files and list iterators of the parent return DFS_E_FORKED,
 * and freeing them only forgets them: no byte is sent, no lock is taken, and the parent is not
 * disturbed. Configurations, errors and other plain facts go on. The child may connect anew.
 */


#ifndef DFS_H
#define DFS_H

#include <stddef.h>
#include <stdint.h>

/** Version of this header: major part. */
#define DFS_VERSION_MAJOR 0
/** Version of this header: minor part. */
#define DFS_VERSION_MINOR 1
/** Version of this header: patch part. */
#define DFS_VERSION_PATCH 0
/** Version of this header as one number, to be compared with dfs_version(). */
#define DFS_VERSION_NUMBER \
  (DFS_VERSION_MAJOR * 10000 + DFS_VERSION_MINOR * 100 + DFS_VERSION_PATCH)
/** Version of this header as a text, to be compared with dfs_version_string(). */
#define DFS_VERSION_STRING "0.1.0"


/** Success. */
#define DFS_OK 0

/** An argument has a value that the call does not accept; the message names both. */
#define DFS_E_INVALID_ARGUMENT (-1)

/** A required pointer argument is NULL; the message names it. */
#define DFS_E_NULL_POINTER (-2)

/** A string argument is not UTF-8; the message names it. */
#define DFS_E_BAD_UTF8 (-3)

/** A path is relative or malformed; the message has it. */
#define DFS_E_BAD_PATH (-4)

/** A flag bit is unknown, or flags contradict each other. */
#define DFS_E_BAD_FLAGS (-5)

/** The call, option or server feature is not supported. */
#define DFS_E_UNSUPPORTED (-6)

/** The file or file system was closed. */
#define DFS_E_CLOSED (-7)

/** A handle was freed, is of another kind, or is none. */
#define DFS_E_BAD_HANDLE (-8)

/** A configuration key or file is malformed; the message names it. */
#define DFS_E_CONFIG (-9)

/** An offset or length lies outside the file. */
#define DFS_E_OUT_OF_RANGE (-10)

/** The file was opened for the other direction. */
#define DFS_E_WRONG_MODE (-11)

/** Memory, or the limit of the buffer pool (`libdfs.buffer.pool.max.bytes`), is exhausted. */
#define DFS_E_NO_MEMORY (-100)

/** The handle was made before a fork, and this is the child. */
#define DFS_E_FORKED (-101)

/** A local system call failed; the message has the errno in words. */
#define DFS_E_IO (-102)

/** The library is shutting down. */
#define DFS_E_SHUTDOWN (-103)

/** The call would have to wait, and must not. */
#define DFS_E_WOULD_BLOCK (-104)

/** The operation was cancelled. */
#define DFS_E_CANCELLED (-105)

/** A host name cannot be resolved. */
#define DFS_E_UNKNOWN_HOST (-200)

/** A connection was refused or could not be made. */
#define DFS_E_CONNECT (-201)

/** A connection broke while in use. */
#define DFS_E_CONNECTION_LOST (-202)

/** The time limit of the call ran out. */
#define DFS_E_TIMED_OUT (-203)

/** The server sent bytes that break the protocol; the message has the field. */
#define DFS_E_PROTOCOL (-204)

/** The server speaks another protocol, such as HTTP. */
#define DFS_E_NOT_HDFS (-205)

/** The file or directory does not exist. */
#define DFS_E_NOT_FOUND (-300)

/** The file or directory exists already. */
#define DFS_E_EXISTS (-301)

/** A component of the path is not a directory. */
#define DFS_E_NOT_DIRECTORY (-302)

/** The path is a directory, and a file is needed. */
#define DFS_E_IS_DIRECTORY (-303)

/** The directory is not empty. */
#define DFS_E_NOT_EMPTY (-304)

/** Permission denied. */
#define DFS_E_PERMISSION (-305)

/** A namespace or space quota is exceeded. */
#define DFS_E_QUOTA (-306)

/** The NameNode is in safe mode. */
#define DFS_E_SAFE_MODE (-307)

/** No NameNode of the service is active. */
#define DFS_E_STANDBY (-308)

/** The lease is gone: somebody else took the file, or it was deleted. */
#define DFS_E_LEASE_EXPIRED (-309)

/** Another client, or this one, is writing the file. */
#define DFS_E_LEASE_HELD (-310)

/** Lease or block recovery of the file is running; try again later. */
#define DFS_E_RECOVERY_IN_PROGRESS (-311)

/** The NameNode refuses the path. */
#define DFS_E_INVALID_PATH (-312)

/** A limit on name lengths or directory sizes is exceeded. */
#define DFS_E_LIMIT (-313)

/** The path is read-only (a snapshot). */
#define DFS_E_READ_ONLY (-314)

/** The NameNode has no DataNode, or no space, for a block. */
#define DFS_E_NO_DATANODES (-315)

/** The path leads through a symbolic link, which the client does not follow. */
#define DFS_E_SYMBOLIC_LINK (-316)

/** The server is busy and asks for a retry. */
#define DFS_E_SERVER_BUSY (-317)

/** The server lacks this call. */
#define DFS_E_NO_SUCH_METHOD (-318)

/** Any other exception of the NameNode; the error has its class and words. */
#define DFS_E_REMOTE (-319)

/** The file is not complete: its blocks lack the minimum of replicas. */
#define DFS_E_NOT_REPLICATED (-320)

/** The write pipeline failed; the file takes no more writes. */
#define DFS_E_PIPELINE (-400)

/** No replica of a block could be read. */
#define DFS_E_BLOCK_MISSING (-401)

/** Data does not match its checksum. */
#define DFS_E_CHECKSUM (-402)

/** A DataNode refused the block token. */
#define DFS_E_BLOCK_TOKEN (-403)

/** A DataNode answered with an error. */
#define DFS_E_DATANODE (-404)

/** Authentication failed or is not possible. */
#define DFS_E_AUTH (-500)

/** The server demands a protection that the client cannot give. */
#define DFS_E_PROTECTION (-501)

/** An internal error (panic) was caught; the handle can only be freed. */
#define DFS_E_PANIC (-600)

/** An internal invariant does not hold. */
#define DFS_E_INTERNAL (-601)

/** No log lines. */
#define DFS_LOG_OFF 0

/** What an operator must know. */
#define DFS_LOG_ERROR 1

/** What went wrong and was handled. */
#define DFS_LOG_WARN 2

/** Rare, normal events. */
#define DFS_LOG_INFO 3

/** Every decision. */
#define DFS_LOG_DEBUG 4

/** Open for reading. */
#define DFS_READ 1

/** Open for writing; needs DFS_CREATE or DFS_APPEND. */
#define DFS_WRITE 2

/** Create the file; it must not exist, unless DFS_OVERWRITE or DFS_APPEND is given too. */
#define DFS_CREATE 4

/** With DFS_CREATE: replace a file that exists. */
#define DFS_OVERWRITE 8

/** Write at the end of an existing file. With DFS_CREATE: create it if it does not exist. */
#define DFS_APPEND 16

/** Make missing parent directories (dfs_open with DFS_CREATE, dfs_mkdir). */
#define DFS_CREATE_PARENTS 32

/** DataNodes sync each block to disk when it ends. */
#define DFS_SYNC_BLOCK 64

/** Place no replica on the DataNode of this host, if others are there. */
#define DFS_NO_LOCAL_WRITE 128

/** Place replicas without regard to where this host is. */
#define DFS_IGNORE_CLIENT_LOCALITY 256

/** Replicate the file even in a directory whose policy is erasure coding. */
#define DFS_SHOULD_REPLICATE 512

/** With DFS_APPEND: begin a new block, even if the last one has room. */
#define DFS_NEW_BLOCK 1024

/**
 * With DFS_WRITE: as dfs_prepare right after opening, so that the first flush finds a pipeline.
 * dfs_open then takes as long as building one does.
 */
#define DFS_PREPARE 2048

/** Default of a field with three states. */
#define DFS_DEFAULT 0

/** Yes, whatever the default is. */
#define DFS_YES 1

/** No, whatever the default is. */
#define DFS_NO 2

/** The default checksum type, `dfs.checksum.type`. */
#define DFS_CHECKSUM_DEFAULT 0

/** CRC-32, the one of zlib. */
#define DFS_CHECKSUM_CRC32 1

/** CRC-32C (Castagnoli), Hadoop's default. */
#define DFS_CHECKSUM_CRC32C 2

/** No checksums. */
#define DFS_CHECKSUM_NULL 3

/** dfs_hsync also tells the NameNode the new length, so that dfs_stat shows it. */
#define DFS_HSYNC_UPDATE_LENGTH 1

/** dfs_hsync also ends the block: the next byte begins a new one. */
#define DFS_HSYNC_END_BLOCK 2

/** dfs_flush_begin: the DataNodes sync the block to their disks, as for dfs_hsync. */
#define DFS_FLUSH_SYNC 4

/** A file. */
#define DFS_KIND_FILE 1

/** A directory. */
#define DFS_KIND_DIRECTORY 2

/** A symbolic link. */
#define DFS_KIND_SYMLINK 3

/** dfs_rename replaces a file, or an empty directory, of the new name. */
#define DFS_RENAME_OVERWRITE 1

/** dfs_delete deletes a directory with all that is in it. */
#define DFS_DELETE_RECURSIVE 1

/** The kind that `dfs.checksum.combine.mode` names. */
#define DFS_FILE_CHECKSUM_DEFAULT 0

/** MD5 of the blocks' MD5s of their CRCs: depends on block and chunk sizes. */
#define DFS_FILE_CHECKSUM_MD5MD5CRC 1

/** CRC of the whole file: independent of block and chunk sizes. Hadoop 3.1.1 and newer. */
#define DFS_FILE_CHECKSUM_COMPOSITE_CRC 2

/** Room for the name of an algorithm, with a NUL at the end. */
#define DFS_CHECKSUM_NAME_SIZE 64

/** Room for the bytes of a checksum. */
#define DFS_CHECKSUM_BYTES_SIZE 32

/** Blocks of a file, with their replicas. Unlike other handles it may be used in a forked child. */
typedef struct dfs_blocks dfs_blocks;

/**
 * Hadoop configuration: keys and values, from files and from the program. Unlike other handles
 * it may be used in a forked child.
 */
typedef struct dfs_config dfs_config;

/**
 * Why a call failed. The caller frees it with dfs_error_free. Unlike other handles it may be used
 * in a forked child.
 */
typedef struct dfs_error dfs_error;

/** An open file: a reader or a writer. Any number of threads may use it at once. */
typedef struct dfs_file dfs_file;

/** The facts that dfs_stat fetched. Unlike other handles it may be used in a forked child. */
typedef struct dfs_file_status dfs_file_status;

/**
 * A connected file system: connections, caches, buffers and leases that its files share. Any
 * number of threads may use it at once.
 */
typedef struct dfs_fs dfs_fs;

/** An iterator over the entries of a directory. */
typedef struct dfs_list_iter dfs_list_iter;

/**
 * Receives one log line: its level (DFS_LOG_ERROR to DFS_LOG_DEBUG), the text with a NUL at the
 * end and its length without that, and the pointer that was given to dfs_log_set. The text is
 * valid during the call only. Called on any thread, also on the library's own and on several at
 * once; it must not call this library, unwind or longjmp, and should return soon, since a
 * caller of the library may be waiting.
 */
typedef void (*dfs_log_callback)(int32_t level, const char *line, size_t len, void *user_data);

/**
 * How a file is opened. Begin with `dfs_open_options options = DFS_OPEN_OPTIONS_INIT;` in C, or
 * with zeroed memory and `size` set to sizeof(dfs_open_options). 0 in a field is the default;
 * fields that do not fit the direction are ignored.
 */
typedef struct dfs_open_options {
  /** Size of this struct in bytes. */
  uint32_t size;
  /** Writing: wanted replicas, 1 to 512; `dfs.replication`. */
  uint32_t replication;
  /** Writing: bytes of a block, a multiple of bytes_per_checksum; `dfs.blocksize`. */
  uint64_t block_size;
  /** Creating: permission bits before the umask (`fs.permissions.umask-mode`); 0666. */
  uint32_t permission;
  /** Creating: bytes that one checksum covers; `dfs.bytes-per-checksum`. */
  uint32_t bytes_per_checksum;
  /** Creating: one of DFS_CHECKSUM_*. */
  int32_t checksum_type;
  /**
   * Writing: largest packet on the wire in bytes; `dfs.client-write-packet-size`. Only a cap:
   * buffers follow what is written.
   */
  uint32_t packet_size;
  /** Time limit in ms of dfs_open itself and of each call on the file; that of the file system. */
  uint64_t timeout_ms;
  /** Reading: bytes that DataNodes read ahead; `dfs.client.cache.readahead`. */
  uint64_t readahead;
  /** Writing: preferred DataNodes, as "ip:port,ip:port"; NULL: none. Copied. */
  const char *favored_nodes;
  /**
   * DFS_DEFAULT, DFS_YES or DFS_NO: DataNodes drop the data from their page cache;
   * `dfs.client.cache.drop.behind.reads` and `.writes`.
   */
  uint8_t drop_behind;
  /** Reading: DFS_DEFAULT or DFS_YES: verify checksums; DFS_NO: do not even fetch them. */
  uint8_t verify_checksum;
  /** Writing: 1: the first fault of a pipeline breaks the file, without recovery. */
  uint8_t fail_fast;
  /** Must be 0. */
  uint8_t reserved;
  /** Writing: a flush fails while fewer DataNodes than this are in the pipeline; 0: no limit. */
  uint32_t min_replicas;
} dfs_open_options;

/** One piece of dfs_preadv. The layout is final. */
typedef struct dfs_range {
  /** In: file offset of the first byte. */
  uint64_t offset;
  /** In: memory for the bytes; ranges of one call must not overlap in memory. */
  void *data;
  /** In: bytes wanted. */
  size_t len;
  /** Out: bytes read; fewer than `len` only at the end of the file. */
  int64_t done;
} dfs_range;

/**
 * One file, directory or symbolic link. Set `size` to sizeof(dfs_file_info) before a call fills
 * it. Texts are UTF-8 with a NUL at the end, which their lengths do not count; they belong to the
 * object that the struct was filled from.
 */
typedef struct dfs_file_info {
  /** Size of this struct in bytes, set by the caller. */
  uint32_t size;
  /** One of DFS_KIND_*. */
  int32_t kind;
  /** Bytes; 0 for anything but a file. Of a file that is being written, what the NameNode knows. */
  uint64_t length;
  /** Bytes of a block; 0 for anything but a file. */
  uint64_t block_size;
  /** Modification time, ms since 1970. */
  uint64_t mtime_ms;
  /** Access time, ms since 1970; 0 where the NameNode keeps none. */
  uint64_t atime_ms;
  /** Number that stays the same over renames; 0 if unknown. */
  uint64_t file_id;
  /** Entries of a directory; -1 if the NameNode does not say. */
  int64_t child_count;
  /** Permission bits, at most 01777. */
  uint32_t mode;
  /** Wanted replicas; 0 for anything but a file. */
  uint32_t replication;
  /** Absolute path. */
  const char *path;
  /** Bytes of `path`. */
  size_t path_len;
  /** Last component of `path`; empty for the root. */
  const char *name;
  /** Bytes of `name`. */
  size_t name_len;
  /** Owner. */
  const char *owner;
  /** Bytes of `owner`. */
  size_t owner_len;
  /** Group. */
  const char *group;
  /** Bytes of `group`. */
  size_t group_len;
  /** Target of a symbolic link, else NULL. */
  const char *symlink;
  /** Bytes of `symlink`. */
  size_t symlink_len;
  /** Id of the storage policy; 0 if none is set. */
  uint32_t storage_policy;
  /** 1 if it has an ACL. */
  uint8_t has_acl;
  /** 1 if it is encrypted, or lies in an encryption zone. */
  uint8_t encrypted;
  /** 1 if its data is erasure coded. */
  uint8_t erasure_coded;
  /** 0. */
  uint8_t reserved;
} dfs_file_info;

/** One block of a file. Set `size` to sizeof(dfs_block_info) before a call fills it. */
typedef struct dfs_block_info {
  /** Size of this struct in bytes, set by the caller. */
  uint32_t size;
  /** Replicas that are known; of a corrupt block, the corrupt ones. */
  uint32_t replica_count;
  /** Offset in the file of the first byte. */
  uint64_t offset;
  /** Bytes. */
  uint64_t length;
  /** Id of the block. */
  uint64_t block_id;
  /** Generation stamp of the block. */
  uint64_t generation_stamp;
  /** 1 if no replica is good. */
  uint8_t corrupt;
  /** 0. */
  uint8_t reserved[7];
} dfs_block_info;

/**
 * One replica of a block. Set `size` to sizeof(dfs_replica_info) before a call fills it. Texts
 * have a NUL at the end, which their lengths do not count.
 */
typedef struct dfs_replica_info {
  /** Size of this struct in bytes, set by the caller. */
  uint32_t size;
  /** Hadoop's number of the storage type (1 DISK, 2 SSD, 3 ARCHIVE, 4 RAM_DISK...); 0 if unknown. */
  uint32_t storage_type;
  /** Host name of the DataNode. */
  const char *host;
  /** Bytes of `host`. */
  size_t host_len;
  /** "ip:port" that the DataNode serves data on. */
  const char *address;
  /** Bytes of `address`. */
  size_t address_len;
  /** Place in the network topology, as "/rack/ip:port". */
  const char *topology;
  /** Bytes of `topology`. */
  size_t topology_len;
  /** Id of the storage (disk); empty from old servers. */
  const char *storage_id;
  /** Bytes of `storage_id`. */
  size_t storage_id_len;
  /** 1 if the DataNode holds the block in memory. */
  uint8_t cached;
  /** 0. */
  uint8_t reserved[7];
} dfs_replica_info;

/**
 * Sizes and counts of a file or a tree. Set `size` to sizeof(dfs_content_info) before a call
 * fills it.
 */
typedef struct dfs_content_info {
  /** Size of this struct in bytes, set by the caller. */
  uint32_t size;
  /** 0. */
  uint32_t reserved;
  /** Bytes of all files. */
  uint64_t length;
  /** Files. */
  uint64_t file_count;
  /** Directories, with the root of the tree. */
  uint64_t directory_count;
  /** Limit of names; -1: none. */
  int64_t quota;
  /** Bytes on disk, with replicas. */
  uint64_t space_consumed;
  /** Limit of those; -1: none. */
  int64_t space_quota;
} dfs_content_info;

/** The file system as a whole. Set `size` to sizeof(dfs_fs_info) before a call fills it. */
typedef struct dfs_fs_info {
  /** Size of this struct in bytes, set by the caller. */
  uint32_t size;
  /** 0. */
  uint32_t reserved;
  /** Bytes of all DataNodes. */
  uint64_t capacity;
  /** Bytes that HDFS uses. */
  uint64_t used;
  /** Bytes that HDFS can still use. */
  uint64_t remaining;
  /** Blocks with too few replicas. */
  uint64_t under_replicated;
  /** Blocks with a corrupt replica. */
  uint64_t corrupt_blocks;
  /** Blocks without a good replica. */
  uint64_t missing_blocks;
} dfs_fs_info;

/** Checksum of a file. Set `size` to sizeof(dfs_checksum_info) before a call fills it. */
typedef struct dfs_checksum_info {
  /** Size of this struct in bytes, set by the caller. */
  uint32_t size;
  /** Bytes that each stored CRC covers (of the first block); 0 for an empty file. */
  uint32_t bytes_per_crc;
  /** CRCs of the first block; 0 if there is one block only. */
  uint64_t crc_per_block;
  /** Bytes of the value: 28 for MD5MD5CRC, 4 for a composite CRC. */
  uint32_t byte_count;
  /** 0. */
  uint32_t reserved;
  /** The value, as FileChecksum#getBytes of Hadoop has it. */
  uint8_t bytes[DFS_CHECKSUM_BYTES_SIZE];
  /** Hadoop's name of the algorithm, such as "MD5-of-262144MD5-of-512CRC32C". */
  char algorithm[DFS_CHECKSUM_NAME_SIZE];
} dfs_checksum_info;

/**
 * Counters of a file system since it was connected; only the fields marked as "now" ever fall. Set
 * `size` to sizeof(dfs_stats) before a call fills it.
 */
typedef struct dfs_stats {
  /** Size of this struct in bytes, set by the caller. */
  uint32_t size;
  /** 0. */
  uint32_t reserved;
  /** Buffer pool, now: bytes in buffers that are in use. */
  uint64_t pool_in_use_bytes;
  /** Buffer pool, now: bytes in free buffers. */
  uint64_t pool_free_bytes;
  /** Buffer pool: highest sum of both. */
  uint64_t pool_peak_bytes;
  /** Buffer pool: buffers that were at hand. */
  uint64_t pool_hits;
  /** Buffer pool: buffers that had to be allocated. */
  uint64_t pool_misses;
  /** Buffer pool: times that somebody had to wait at the limit. */
  uint64_t pool_waits;
  /** Files open for writing, now. */
  uint64_t open_writers;
  /** Bytes that dfs_write took. */
  uint64_t bytes_written;
  /** Packets sent, with heartbeats and ends of blocks. */
  uint64_t packets_sent;
  /** Calls of dfs_hflush and dfs_hsync that succeeded. */
  uint64_t flushes;
  /** Of these, calls that another thread's packet served. */
  uint64_t flushes_combined;
  /** Blocks allocated. */
  uint64_t blocks_written;
  /** Faults of pipelines. */
  uint64_t pipeline_faults;
  /** Pipelines that were rebuilt. */
  uint64_t pipeline_recoveries;
  /** Times that a writer waited for acknowledgements or a full socket. */
  uint64_t window_waits;
  /** Heartbeat packets sent on idle pipelines. */
  uint64_t heartbeats;
  /** Bytes that reads delivered. */
  uint64_t bytes_read;
  /** Read requests that DataNodes served. */
  uint64_t read_requests;
  /** Connections made for reads. */
  uint64_t read_connects;
  /** Read requests that ran on a connection from the cache. */
  uint64_t read_cache_hits;
  /** Connections from the cache that turned out to be dead; no node was blamed. */
  uint64_t read_stale_peers;
  /** Failures of reads after which another attempt was made. */
  uint64_t read_failovers;
  /** Replicas whose data did not match its checksums. */
  uint64_t read_checksum_failures;
  /** Hedged reads: second requests that were sent because the first one was late. */
  uint64_t read_hedged;
  /** Of these, requests that were answered first. */
  uint64_t read_hedged_wins;
  /** Times that one was due, but as many as allowed were under way. */
  uint64_t read_hedged_refused;
  /** Requests for the next block that a sequential read sent before it was through with its own. */
  uint64_t read_early_requests;
} dfs_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Name of a status, such as "DFS_E_NOT_FOUND"; NULL for a number that this version does not
 * have. Never freed.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
const char *dfs_status_name(int32_t status);

/**
 * Status of the error: what the failed call returned. DFS_E_NULL_POINTER or DFS_E_BAD_HANDLE if
 * `error` is no error object.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int32_t dfs_error_status(const struct dfs_error *error);

/**
 * The whole message in English: what was attempted, on what, and what came back. It never has
 * a password or token.
 *
 * `len` receives the length in bytes without the NUL at the end; it may be NULL. The text lives
 * until the error is freed. NULL if `error` is no error object.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
const char *dfs_error_message(const struct dfs_error *error, size_t *len);

/**
 * Full Java class name of the exception that a server sent, such as
 * "org.apache.hadoop.security.AccessControlException"; NULL if none was sent.
 *
 * `len` and lifetime are those of dfs_error_message.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
const char *dfs_error_remote_class(const struct dfs_error *error, size_t *len);

/**
 * The server's own words; NULL if it sent none. They may have several lines.
 *
 * `len` and lifetime are those of dfs_error_message.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
const char *dfs_error_remote_message(const struct dfs_error *error, size_t *len);

/**
 * The server at fault as "host:port"; NULL if none is known.
 *
 * `len` and lifetime are those of dfs_error_message.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
const char *dfs_error_server(const struct dfs_error *error, size_t *len);

/**
 * What was being done when it failed, such as "connecting"; NULL if nothing more is known than
 * the call.
 *
 * `len` and lifetime are those of dfs_error_message.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
const char *dfs_error_stage(const struct dfs_error *error, size_t *len);

/**
 * After a failed write, flush or close: file bytes, counted from 0, that every DataNode has
 * acknowledged for certain. Negative if the error carries no such number.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int64_t dfs_error_durable_bytes(const struct dfs_error *error);

/**
 * 1 if the same call may succeed later without any change by the caller, else 0.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int32_t dfs_error_is_retriable(const struct dfs_error *error);

/**
 * 1 if the handle that was used is broken for good: every later call on it fails, and all that
 * is left is to free it. Else 0.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int32_t dfs_error_is_fatal(const struct dfs_error *error);

/**
 * Frees an error and its texts. NULL is fine.
 *
 * Threads: any. Does not block. Since 0.1.
 */
void dfs_error_free(struct dfs_error *error);

/**
 * Version of the library that is loaded, as `DFS_VERSION_NUMBER` counts it: 10000 * major +
 * 100 * minor + patch. Compare it with the macro, which has the version of the header.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
uint32_t dfs_version(void);

/**
 * Version of the library that is loaded, such as "0.1.0"; never freed.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
const char *dfs_version_string(void);

/**
 * Ends the library's work in this process: calls that wait return DFS_E_CLOSED or
 * DFS_E_SHUTDOWN, files that are still written are abandoned, connections are closed and the
 * background threads are joined. Handles stay valid for their `_free` functions. Not needed
 * before `exit`. A later dfs_connect starts afresh.
 *
 * Returns DFS_OK, or DFS_E_PANIC after an internal error.
 *
 * Threads: any, but not from the log callback. Blocks until the background threads have ended,
 * which takes as long as one lease renewal at most (`ipc.client.rpc-timeout.ms`). Since 0.1.
 */
int32_t dfs_shutdown(void);

/**
 * Sets the receiver of log lines, one for the process; without it, lines go nowhere.
 *
 * `level`: the most verbose level wanted, DFS_LOG_OFF to DFS_LOG_DEBUG. `callback`: NULL ends
 * logging. `user_data`: passed on as it is; when dfs_log_set returns, no thread uses the
 * previous callback and its data any more. `error`: may be NULL.
 *
 * Returns DFS_OK, or DFS_E_INVALID_ARGUMENT for an unknown level.
 *
 * Threads: any, but not from the callback. Blocks while a callback is running. Since 0.1.
 */
int32_t dfs_log_set(int32_t level,
                    dfs_log_callback callback,
                    void *user_data,
                    struct dfs_error **error);

/**
 * Makes a configuration with Hadoop's defaults and nothing else: no file is read.
 *
 * `out`: receives the configuration, to be freed with dfs_config_free. `error`: may be NULL.
 *
 * Returns DFS_OK, DFS_E_NULL_POINTER or DFS_E_NO_MEMORY.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int32_t dfs_config_new(struct dfs_config **out, struct dfs_error **error);

/**
 * Makes a configuration from files.
 *
 * `path`: a Hadoop XML file, or a directory with core-site.xml and hdfs-site.xml, of which one may
 * be missing. NULL: the directory $HADOOP_CONF_DIR, else $HADOOP_HOME/etc/hadoop; if neither
 * variable is set, no file. `out`: receives the configuration, to be freed with dfs_config_free.
 * `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_CONFIG for a file or directory that is missing or malformed (the message
 * has file and line); DFS_E_INVALID_ARGUMENT, DFS_E_NULL_POINTER, DFS_E_BAD_UTF8,
 * DFS_E_NO_MEMORY.
 *
 * Threads: any, concurrent. Blocks only for reading local files. Since 0.1.
 */
int32_t dfs_config_load(const char *path, struct dfs_config **out, struct dfs_error **error);

/**
 * Reads a further file or directory into a configuration. Its values win over those of earlier
 * files, except over final ones, and never over those of dfs_config_set.
 *
 * `path`: as for dfs_config_load, but not NULL. `error`: may be NULL.
 *
 * Returns DFS_OK or what dfs_config_load returns; after a failure the configuration is unchanged.
 *
 * Threads: any, one at a time per handle. Blocks only for reading local files. Since 0.1.
 */
int32_t dfs_config_add_resource(struct dfs_config *config,
                                const char *path,
                                struct dfs_error **error);

/**
 * Sets a key. The value wins over all files; it is checked by dfs_connect, and has no effect on
 * file systems that are connected already.
 *
 * `key`, `value`: any Hadoop key and its text, such as "dfs.replication" and "2"; units are
 * those of Hadoop. `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_INVALID_ARGUMENT for an empty key; DFS_E_NULL_POINTER, DFS_E_BAD_UTF8,
 * DFS_E_BAD_HANDLE; DFS_E_WOULD_BLOCK if another thread is using the configuration.
 *
 * Threads: any, one at a time per handle. Does not block. Since 0.1.
 */
int32_t dfs_config_set(struct dfs_config *config,
                       const char *key,
                       const char *value,
                       struct dfs_error **error);

/**
 * Gets the value of a key, with `${...}` expanded, or Hadoop's default if none is set.
 *
 * `value`: receives the text, which lives until the configuration is freed; NULL if the key has
 * neither a value nor a default. `len`: receives its length in bytes; may be NULL. `error`: may
 * be NULL.
 *
 * Returns 1 if there is a value, 0 if not; DFS_E_CONFIG if it cannot be expanded;
 * DFS_E_NULL_POINTER, DFS_E_BAD_UTF8, DFS_E_BAD_HANDLE; DFS_E_WOULD_BLOCK if another thread is
 * using the configuration.
 *
 * Threads: any, one at a time per handle. Does not block. Since 0.1.
 */
int32_t dfs_config_get(struct dfs_config *config,
                       const char *key,
                       const char **value,
                       size_t *len,
                       struct dfs_error **error);

/**
 * Frees a configuration and the texts got from it. File systems made with it go on. NULL is fine.
 *
 * Threads: any. Does not block. Since 0.1.
 */
void dfs_config_free(struct dfs_config *config);

/**
 * Connects to a file system and asks its NameNode for the defaults, so that a wrong address
 * fails here and not at the first file.
 *
 * `config`: settings, copied; NULL: as dfs_config_load(NULL). `uri`: "hdfs://host:port", or
 * "hdfs://nameservice" with the nameservice in the configuration; NULL: `fs.defaultFS`.
 * `out`: receives the file system, to be freed with dfs_fs_free. `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_CONFIG (key and value named) or DFS_E_INVALID_ARGUMENT (a URI that is
 * not HDFS) for what the caller gave; DFS_E_UNKNOWN_HOST, DFS_E_CONNECT, DFS_E_TIMED_OUT,
 * DFS_E_NOT_HDFS, DFS_E_STANDBY, DFS_E_AUTH, DFS_E_PROTECTION for the server (named);
 * DFS_E_NULL_POINTER, DFS_E_BAD_UTF8, DFS_E_BAD_HANDLE, DFS_E_NO_MEMORY.
 *
 * Threads: any, concurrent. Blocks up to `libdfs.call.timeout.ms` if that is set, and within it
 * up to `ipc.client.connect.timeout` and `ipc.client.connect.max.retries` for each address of
 * each NameNode. Since 0.1.
 */
int32_t dfs_connect(const struct dfs_config *config,
                    const char *uri,
                    struct dfs_fs **out,
                    struct dfs_error **error);

/**
 * Sets the time limit of each later call on the file system (not on files that are open). Calls
 * that are running keep theirs.
 *
 * `timeout_ms`: milliseconds a call; 0: `libdfs.call.timeout.ms`, or without that only the limits
 * of the single steps. A call that runs out of time returns DFS_E_TIMED_OUT.
 *
 * Returns DFS_OK, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int32_t dfs_fs_set_timeout(struct dfs_fs *fs, uint64_t timeout_ms);

/**
 * URI of the file system, as "hdfs://authority"; it lives until the file system is freed.
 *
 * `len`: receives the length in bytes without the NUL at the end; may be NULL.
 *
 * Returns NULL if `fs` is no file system of this process.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
const char *dfs_fs_uri(const struct dfs_fs *fs, size_t *len);

/**
 * Ends a file system: its connections are closed, calls that wait on it or its files return
 * DFS_E_CLOSED, later ones too, and files that are still written are abandoned. Optional:
 * dfs_fs_free alone lets open files go on.
 *
 * `error`: may be NULL.
 *
 * Returns DFS_OK (also the second time), DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int32_t dfs_fs_close(struct dfs_fs *fs, struct dfs_error **error);

/**
 * Frees a file system. Its files, lists and the calls that run go on: what they need lives until
 * the last of them ends. NULL is fine.
 *
 * Threads: any. Does not block. Since 0.1.
 */
void dfs_fs_free(struct dfs_fs *fs);

/**
 * Opens a file for reading, creates one, or opens one to write at its end.
 *
 * `path`: absolute, NUL-terminated UTF-8. `flags`: DFS_READ; or DFS_WRITE with DFS_CREATE or
 * DFS_APPEND and what they allow. `options`: NULL for the defaults. `out`: receives the file, to
 * be freed with dfs_file_free. `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_BAD_FLAGS, DFS_E_BAD_PATH, DFS_E_INVALID_ARGUMENT (an option), or
 * DFS_E_UNSUPPORTED (an unknown option; an erasure-coded or encrypted file) for what was asked;
 * DFS_E_NOT_FOUND, DFS_E_EXISTS, DFS_E_IS_DIRECTORY, DFS_E_PERMISSION, DFS_E_QUOTA,
 * DFS_E_LEASE_HELD, DFS_E_RECOVERY_IN_PROGRESS, DFS_E_SAFE_MODE... from the NameNode;
 * DFS_E_BLOCK_MISSING if the length of a file that is being written cannot be found out;
 * DFS_E_TIMED_OUT, DFS_E_CONNECT and other network statuses; DFS_E_NULL_POINTER,
 * DFS_E_BAD_UTF8, DFS_E_BAD_HANDLE, DFS_E_FORKED, DFS_E_CLOSED, DFS_E_NO_MEMORY.
 *
 * Threads: any, concurrent. Blocks up to `options->timeout_ms`, else the limit of the file system
 * (dfs_fs_set_timeout), and within it as calls to the NameNode do (`ipc.client.*`,
 * `dfs.client.failover.*`). Since 0.1.
 */
int32_t dfs_open(struct dfs_fs *fs,
                 const char *path,
                 int32_t flags,
                 const struct dfs_open_options *options,
                 struct dfs_file **out,
                 struct dfs_error **error);

/**
 * Closes a file. A writer flushes, ends the last block and completes the file at the NameNode:
 * only after DFS_OK is the file whole. A reader gives back its connection. The handle must be
 * freed all the same.
 *
 * `error`: may be NULL.
 *
 * Returns DFS_OK (also for a file that is closed already); for a writer what dfs_hflush returns,
 * and what the NameNode says: DFS_E_LEASE_EXPIRED, DFS_E_NOT_REPLICATED... After
 * DFS_E_TIMED_OUT the file is still open and dfs_close may be called again. DFS_E_NULL_POINTER,
 * DFS_E_BAD_HANDLE, DFS_E_FORKED.
 *
 * Threads: any; other calls on the file end before it, or fail with DFS_E_CLOSED after it.
 * Blocks up to the limit of the file (dfs_file_set_timeout), and within it as dfs_hflush does
 * and up to `dfs.client.block.write.locateFollowingBlock.retries` polls of the NameNode.
 * Readers: at most 0.6 s, to read a response to its end and keep the connection. Since 0.1.
 */
int32_t dfs_close(struct dfs_file *file, struct dfs_error **error);

/**
 * Frees a file. A writer that was not closed is abandoned: nothing more is sent, what was not
 * flushed is lost, and the NameNode closes the file when its lease runs out. NULL is fine.
 *
 * Threads: any; calls that run on the file end first, and the file goes with the last of them.
 * Does not block. Since 0.1.
 */
void dfs_file_free(struct dfs_file *file);

/**
 * Sets the time limit of each later call on the file. Calls that are running keep theirs.
 *
 * `timeout_ms`: milliseconds a call; 0: `libdfs.call.timeout.ms`, or without that only the limits
 * of the single steps. A call that runs out of time returns DFS_E_TIMED_OUT; the file stays
 * usable.
 *
 * Returns DFS_OK, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int32_t dfs_file_set_timeout(struct dfs_file *file, uint64_t timeout_ms);

/**
 * The path that was opened; it lives until the file is freed.
 *
 * `len`: receives the length in bytes without the NUL at the end; may be NULL.
 *
 * Returns NULL if `file` is no file of this process.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
const char *dfs_file_path(const struct dfs_file *file, size_t *len);

/**
 * Offset of the next byte that dfs_read reads or dfs_write writes.
 *
 * Returns the offset, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int64_t dfs_tell(const struct dfs_file *file);

/**
 * Length of the file in bytes. Reader: what may be read, as the last dfs_file_refresh (or
 * dfs_open) found it; of a file that is being written too. Writer: what was written so far, with
 * what was there before.
 *
 * Returns the length, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int64_t dfs_file_length(const struct dfs_file *file);

/**
 * Writes all of `len` bytes at the end of the file. They are copied and sent when a packet is
 * full; only dfs_hflush, dfs_hsync and dfs_close promise that they arrived.
 *
 * `data`: may be NULL if `len` is 0. `len`: bytes. `error`: may be NULL.
 *
 * Returns `len`. DFS_E_TIMED_OUT: dfs_tell says how many bytes were taken, and the file stays
 * usable. DFS_E_PIPELINE, DFS_E_LEASE_EXPIRED, DFS_E_NO_DATANODES...: the file is broken for
 * good (dfs_error_is_fatal), every later call returns the same, and dfs_error_durable_bytes says
 * what is safe. DFS_E_NO_MEMORY: the buffer pool stayed empty for `libdfs.buffer.pool.wait.ms`.
 * DFS_E_CLOSED, DFS_E_WRONG_MODE, DFS_E_INVALID_ARGUMENT (an impossible `len`),
 * DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE, DFS_E_FORKED.
 *
 * Threads: any, concurrent; the bytes of one call stay together. Mostly does not block; while
 * `dfs.client.write.max-packets-in-flight` packets are unanswered, and where a block ends, it
 * blocks up to the limit of the file (dfs_file_set_timeout), and within it up to
 * `dfs.client.socket-timeout` for an answer, besides recovery (see dfs_hflush). Since 0.1.
 */
int64_t dfs_write(struct dfs_file *file, const void *data, size_t len, struct dfs_error **error);

/**
 * Returns when every byte written before is in the memory of all DataNodes of the pipeline:
 * readers that open the file, or refresh it, see the bytes.
 *
 * `error`: may be NULL.
 *
 * Returns DFS_OK, or what dfs_write returns. After DFS_E_TIMED_OUT the bytes may still become
 * durable, and the call may be repeated.
 *
 * Threads: any, concurrent: flushes that meet are served by one packet, and dfs_write goes on
 * meanwhile. Blocks up to the limit of the file (dfs_file_set_timeout), and within it up to
 * `dfs.client.socket-timeout` for an answer. When a DataNode fails, the pipeline is rebuilt,
 * which may take `dfs.client.pipeline.recovery.max-retries` such rounds. Since 0.1.
 */
int32_t dfs_hflush(struct dfs_file *file, struct dfs_error **error);

/**
 * As dfs_hflush, and the DataNodes have also synced the current block to their disks.
 *
 * `flags`: 0, DFS_HSYNC_UPDATE_LENGTH, DFS_HSYNC_END_BLOCK or both. `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_BAD_FLAGS for unknown flags; or what dfs_hflush returns.
 *
 * Threads and blocking: as dfs_hflush; disks make it slower. Since 0.1.
 */
int32_t dfs_hsync(struct dfs_file *file, int32_t flags, struct dfs_error **error);

/**
 * File bytes, counted from 0, that every DataNode of the pipeline has acknowledged. Writers
 * only; also of a file that is broken or closed.
 *
 * Returns the count, DFS_E_WRONG_MODE, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int64_t dfs_file_durable(const struct dfs_file *file);

/**
 * The DataNodes that the current block is written to, first one first, as "ip:port,ip:port";
 * empty between blocks. Writers only.
 *
 * `buffer`: receives as much of the text as fits, with a NUL at the end. `size`: bytes of
 * `buffer`; if 0, it may be NULL. `error`: may be NULL.
 *
 * Returns the length of the whole text without the NUL: it was cut if that is not below `size`.
 * DFS_E_WRONG_MODE, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE, DFS_E_FORKED.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int64_t dfs_file_pipeline(const struct dfs_file *file,
                          char *buffer,
                          size_t size,
                          struct dfs_error **error);

/**
 * Begins a flush of every byte written before and returns at once, with its ticket: the position
 * in the file up to which it goes. Any number of flushes may be under way; they complete in the
 * order in which they were begun, each exactly once.
 *
 * A flush that cannot be sent at once (no pipeline stands, all packets of the window are under
 * way, another thread is in dfs_write) is sent by a thread of the library, or by the first
 * dfs_flush_wait or dfs_flush_poll that can.
 *
 * `flags`: 0 or DFS_FLUSH_SYNC. `error`: may be NULL.
 *
 * Returns the position; DFS_E_BAD_FLAGS; or a lasting error, as dfs_write does.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int64_t dfs_flush_begin(struct dfs_file *file, int32_t flags, struct dfs_error **error);

/**
 * Returns when every flush that was begun up to a position is complete: what dfs_hflush (or, with
 * DFS_FLUSH_SYNC, dfs_hsync) promises holds for the bytes below it.
 *
 * `position`: what dfs_flush_begin returned. `timeout_ms`: limit of this call; 0: that of the
 * file. `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_INVALID_ARGUMENT if no flush was begun that reaches the position; or what
 * dfs_hflush returns. After DFS_E_TIMED_OUT the flush is still under way. After a lasting error
 * dfs_error_durable_bytes says what is certainly durable; whether the bytes from there up to
 * dfs_tell became so is unknown.
 *
 * Threads: any, concurrent, also for the same position. Blocks as dfs_hflush. Since 0.1.
 */
int32_t dfs_flush_wait(struct dfs_file *file,
                       int64_t position,
                       uint64_t timeout_ms,
                       struct dfs_error **error);

/**
 * Takes in the acknowledgements that are there and says which flushes completed.
 *
 * `position`: receives the position up to which flushes are complete; may be NULL. `error`: may
 * be NULL.
 *
 * Returns how many flushes completed since the last poll: every one is counted by exactly one
 * call, in order. When there is none and others are under way: the lasting error of the file, or
 * DFS_E_PIPELINE while fewer DataNodes than `options->min_replicas` are in the pipeline. A fault
 * of the pipeline is repaired by a thread of the library meanwhile. dfs_file_durable says at any
 * time what is durable, begun flush or not.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int64_t dfs_flush_poll(struct dfs_file *file, int64_t *position, struct dfs_error **error);

/**
 * Writes as many of `len` bytes as need no waiting, from the first one on.
 *
 * `data`: may be NULL if `len` is 0. `len`: bytes. `error`: may be NULL.
 *
 * Returns the number of bytes taken, which may be less than `len`; DFS_E_WOULD_BLOCK if none
 * could be, because another thread is writing, all packets of the window are under way, or a
 * block ends (a thread of the library sees to the next); or a lasting error, as dfs_write does.
 *
 * Threads: any, concurrent; the bytes that one call takes stay together. Does not block.
 * Since 0.1.
 */
int64_t dfs_try_write(struct dfs_file *file,
                      const void *data,
                      size_t len,
                      struct dfs_error **error);

/**
 * Builds the pipeline of the next block, if none stands. The flush that comes first then finds
 * it, and costs one call to the NameNode more than any other. A block that gets no bytes is given
 * back when the file is closed. For a log that is to take over at once: open, prepare, switch.
 *
 * `error`: may be NULL.
 *
 * Returns DFS_OK, or what dfs_write returns. After DFS_E_TIMED_OUT the first write goes on with
 * it.
 *
 * Threads: any, concurrent. Blocks up to the limit of the file, and within it as dfs_write at
 * the beginning of a block. Since 0.1.
 */
int32_t dfs_prepare(struct dfs_file *file, struct dfs_error **error);

/**
 * Has a thread of the library close a file that was written; returns at once. The limit of the
 * file counts from when the thread begins. The handle may be freed meanwhile: the close goes on.
 * Further writes fail with DFS_E_CLOSED, or come before the end. (Not for readers, whose
 * dfs_close does not wait for a server that is slow.)
 *
 * `error`: may be NULL.
 *
 * Returns DFS_OK (also if it was begun before); DFS_E_IO if no thread can be started;
 * DFS_E_WRONG_MODE, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE, DFS_E_FORKED.
 *
 * Threads: any, concurrent. At most three files are closed at the same time, others wait their
 * turn. Does not block. Since 0.1.
 */
int32_t dfs_close_begin(struct dfs_file *file, struct dfs_error **error);

/**
 * Whether a close that was begun is done.
 *
 * `error`: may be NULL.
 *
 * Returns 1 if the file is closed, 0 while it is being closed; what dfs_close would have
 * returned if that failed, once: after DFS_E_TIMED_OUT and other errors that are not lasting
 * dfs_close_begin or dfs_close may be called again. DFS_E_INVALID_ARGUMENT if no close was begun.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int32_t dfs_close_poll(struct dfs_file *file, struct dfs_error **error);

/**
 * Reads at the cursor and moves it: fills the buffer unless the file ends before.
 *
 * `buffer`: may be NULL if `len` is 0. `len`: bytes wanted. `error`: may be NULL.
 *
 * Returns the bytes read: fewer than `len` at the end of the file, or when a failure follows,
 * which the next call then reports; 0 only at the end. DFS_E_BLOCK_MISSING if no replica
 * can be read (each is named); DFS_E_TIMED_OUT, DFS_E_CLOSED, DFS_E_WRONG_MODE,
 * DFS_E_INVALID_ARGUMENT (an impossible `len`), DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE,
 * DFS_E_FORKED; what the NameNode says when block locations are fetched again.
 *
 * Threads: any; calls at the cursor take their turn, dfs_pread does not wait for them. Blocks up
 * to the limit of the file (dfs_file_set_timeout), and within it up to
 * `dfs.client.socket-timeout` for each replica and `dfs.client.max.block.acquire.failures`
 * rounds. Since 0.1.
 */
int64_t dfs_read(struct dfs_file *file, void *buffer, size_t len, struct dfs_error **error);

/**
 * Reads at `offset`; the cursor does not matter and does not move. Fills the buffer unless the
 * file ends before.
 *
 * `offset`: bytes from the start of the file. `buffer`: may be NULL if `len` is 0; its contents
 * are undefined after a failure. `len`: bytes wanted. `error`: may be NULL.
 *
 * Returns the bytes read, fewer than `len` only at the end of the file, 0 behind it; or a status
 * of dfs_read.
 *
 * Threads: any, concurrent; calls do not wait for each other. Blocks as dfs_read. Since 0.1.
 */
int64_t dfs_pread(struct dfs_file *file,
                  uint64_t offset,
                  void *buffer,
                  size_t len,
                  struct dfs_error **error);

/**
 * Reads several ranges in one call; near ones are fetched together. The cursor does not matter.
 *
 * `ranges`: offset, memory and length of each, in any order; `done` of each receives its bytes.
 * May be NULL if `range_count` is 0. `error`: may be NULL.
 *
 * Returns the bytes read in all, or a status of dfs_pread for the first range that fails; then
 * every `done` is that status, and the contents of all buffers are undefined.
 * DFS_E_INVALID_ARGUMENT also if ranges overlap in memory.
 *
 * Threads: any, concurrent. Blocks as dfs_read. Since 0.1.
 */
int64_t dfs_preadv(struct dfs_file *file,
                   struct dfs_range *ranges,
                   size_t range_count,
                   struct dfs_error **error);

/**
 * Moves the cursor. Nothing is sent.
 *
 * `offset`: bytes from the start of the file, at most its known length. `error`: may be NULL.
 *
 * Returns DFS_OK, DFS_E_OUT_OF_RANGE, DFS_E_CLOSED, DFS_E_WRONG_MODE, DFS_E_NULL_POINTER,
 * DFS_E_BAD_HANDLE or DFS_E_FORKED.
 *
 * Threads: any, concurrent. Blocks while a dfs_read is running on the file. Since 0.1.
 */
int32_t dfs_seek(struct dfs_file *file, uint64_t offset, struct dfs_error **error);

/**
 * Bytes between the cursor and the known end of the file. Readers only.
 *
 * Returns the count, DFS_E_WRONG_MODE, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int64_t dfs_available(const struct dfs_file *file);

/**
 * Asks for the length of a file that may be growing; later reads go up to it. Readers only.
 *
 * `error`: may be NULL.
 *
 * Returns the length in bytes, what dfs_open returns when reading, or DFS_E_CLOSED,
 * DFS_E_WRONG_MODE, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE, DFS_E_FORKED.
 *
 * Threads: any, concurrent. Blocks up to the limit of the file (dfs_file_set_timeout), and within
 * it as calls to the NameNode do (`ipc.client.*`), and up to `dfs.client.socket-timeout` for a
 * DataNode. Since 0.1.
 */
int64_t dfs_file_refresh(struct dfs_file *file, struct dfs_error **error);

/**
 * Gives back the connection and the buffers that dfs_read keeps for the next call; the cursor
 * stays. For readers that rest for long. Does nothing while a dfs_read is running.
 *
 * Returns DFS_OK, DFS_E_WRONG_MODE, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
 *
 * Threads: any, concurrent. Blocks at most 0.6 s, to read a response to its end. Since 0.1.
 */
int32_t dfs_file_unbuffer(struct dfs_file *file);

/**
 * Fetches the status of a file, directory or link.
 *
 * `path`: absolute, NUL-terminated UTF-8. `out`: receives the status, to be read with
 * dfs_file_status_get and freed with dfs_file_status_free. `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_NOT_DIRECTORY (a parent is a file), DFS_E_PERMISSION...
 * from the NameNode; DFS_E_BAD_PATH; DFS_E_TIMED_OUT, DFS_E_CONNECT and other network statuses;
 * DFS_E_NULL_POINTER, DFS_E_BAD_UTF8, DFS_E_BAD_HANDLE, DFS_E_FORKED, DFS_E_CLOSED,
 * DFS_E_NO_MEMORY.
 *
 * Threads: any, concurrent. Blocks up to the limit of the file system (dfs_fs_set_timeout), and
 * within it as calls to the NameNode do: `ipc.client.connect.*`, `ipc.client.rpc-timeout.ms`,
 * `dfs.client.failover.*`. Since 0.1.
 */
int32_t dfs_stat(struct dfs_fs *fs,
                 const char *path,
                 struct dfs_file_status **out,
                 struct dfs_error **error);

/**
 * Fills a struct with what dfs_stat fetched; its texts live until the status is freed.
 *
 * `info`: `size` is set. `error`: may be NULL.
 *
 * Returns DFS_OK, DFS_E_INVALID_ARGUMENT (an impossible `info->size`), DFS_E_NULL_POINTER or
 * DFS_E_BAD_HANDLE.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int32_t dfs_file_status_get(const struct dfs_file_status *status,
                            struct dfs_file_info *info,
                            struct dfs_error **error);

/**
 * Frees a status and its texts. NULL is fine.
 *
 * Threads: any. Does not block. Since 0.1.
 */
void dfs_file_status_free(struct dfs_file_status *status);

/**
 * Makes a directory. One that exists is no error.
 *
 * `path`: absolute. `mode`: permission bits before the umask (`fs.permissions.umask-mode`); 0
 * stands for 0777. `flags`: 0, or DFS_CREATE_PARENTS for missing parents too. `error`: may be
 * NULL.
 *
 * Returns DFS_OK; DFS_E_EXISTS (a file is there), DFS_E_NOT_FOUND (no parent),
 * DFS_E_NOT_DIRECTORY, DFS_E_PERMISSION, DFS_E_QUOTA...; DFS_E_BAD_FLAGS, DFS_E_INVALID_ARGUMENT
 * (mode); and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_mkdir(struct dfs_fs *fs,
                  const char *path,
                  uint32_t mode,
                  int32_t flags,
                  struct dfs_error **error);

/**
 * Renames a file or directory to exactly the new path.
 *
 * `from`, `to`: absolute. `flags`: 0, or DFS_RENAME_OVERWRITE. `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_NOT_FOUND (no source, or no parent of the target), DFS_E_EXISTS,
 * DFS_E_NOT_EMPTY, DFS_E_PERMISSION...; DFS_E_BAD_FLAGS; and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_rename(struct dfs_fs *fs,
                   const char *from,
                   const char *to,
                   int32_t flags,
                   struct dfs_error **error);

/**
 * Deletes a file or directory.
 *
 * `path`: absolute. `flags`: 0, or DFS_DELETE_RECURSIVE for a directory that is not empty.
 * `error`: may be NULL.
 *
 * Returns 1 if it was deleted, 0 if it did not exist; DFS_E_NOT_EMPTY, DFS_E_PERMISSION...;
 * DFS_E_BAD_FLAGS; and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_delete(struct dfs_fs *fs, const char *path, int32_t flags, struct dfs_error **error);

/**
 * Cuts a file that nobody writes.
 *
 * `path`: absolute. `length`: bytes that remain, at most the present length. `error`: may be NULL.
 *
 * Returns 1 if it is done; 0 if the last block is still being cut: the file cannot be written
 * until dfs_is_file_closed returns 1. DFS_E_NOT_FOUND, DFS_E_LEASE_HELD,
 * DFS_E_INVALID_ARGUMENT (the file is shorter)...; and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_truncate(struct dfs_fs *fs,
                     const char *path,
                     uint64_t length,
                     struct dfs_error **error);

/**
 * Moves the blocks of files behind those of another one, and removes the files. No data is
 * copied.
 *
 * `target`: absolute path of the file that grows. `sources`: array of absolute paths.
 * `source_count`: its length, at least 1. `error`: may be NULL.
 *
 * Returns DFS_OK; what the NameNode says about files that do not fit together
 * (DFS_E_INVALID_ARGUMENT, DFS_E_REMOTE); DFS_E_NOT_FOUND...; and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_concat(struct dfs_fs *fs,
                   const char *target,
                   const char *const *sources,
                   size_t source_count,
                   struct dfs_error **error);

/**
 * Sets the wanted number of replicas of a file. Returns before they exist.
 *
 * `path`: absolute. `replication`: replicas, within the NameNode's limits. `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_IS_DIRECTORY, DFS_E_PERMISSION...; and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_set_replication(struct dfs_fs *fs,
                            const char *path,
                            uint32_t replication,
                            struct dfs_error **error);

/**
 * Sets permission bits; the umask plays no part.
 *
 * `path`: absolute. `mode`: at most 01777. `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_PERMISSION...; DFS_E_INVALID_ARGUMENT (mode); and as
 * dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_set_permission(struct dfs_fs *fs,
                           const char *path,
                           uint32_t mode,
                           struct dfs_error **error);

/**
 * Sets owner, group or both.
 *
 * `path`: absolute. `owner`, `group`: NULL leaves it as it is; at least one is given. `error`:
 * may be NULL.
 *
 * Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_PERMISSION...; DFS_E_INVALID_ARGUMENT (neither, or an
 * empty name); and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_set_owner(struct dfs_fs *fs,
                      const char *path,
                      const char *owner,
                      const char *group,
                      struct dfs_error **error);

/**
 * Sets modification time, access time or both.
 *
 * `path`: absolute. `mtime_ms`, `atime_ms`: ms since 1970; -1 leaves it as it is. `error`: may be
 * NULL.
 *
 * Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_PERMISSION...; DFS_E_INVALID_ARGUMENT (a time below -1);
 * and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_set_times(struct dfs_fs *fs,
                      const char *path,
                      int64_t mtime_ms,
                      int64_t atime_ms,
                      struct dfs_error **error);

/**
 * Takes a file from its writer, if it has one, and starts to close it.
 *
 * `path`: absolute. `error`: may be NULL.
 *
 * Returns 1 if the file is closed, 0 if recovery runs: ask again, or dfs_is_file_closed, after a
 * second or more. DFS_E_NOT_FOUND, DFS_E_PERMISSION...; and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_recover_lease(struct dfs_fs *fs, const char *path, struct dfs_error **error);

/**
 * Whether nobody writes a file and all its blocks are complete.
 *
 * `path`: absolute. `error`: may be NULL.
 *
 * Returns 1 or 0; DFS_E_NOT_FOUND, DFS_E_PERMISSION...; and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_is_file_closed(struct dfs_fs *fs, const char *path, struct dfs_error **error);

/**
 * Begins to list a directory; a file lists itself. Entries come in the order of their names'
 * bytes, fetched page by page; those that appear or vanish meanwhile may be seen or not.
 *
 * `path`: absolute. `out`: receives the iterator, to be freed with dfs_list_free. `error`: may be
 * NULL.
 *
 * Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_PERMISSION...; and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_list(struct dfs_fs *fs,
                 const char *path,
                 struct dfs_list_iter **out,
                 struct dfs_error **error);

/**
 * Moves to the next entry.
 *
 * `info`: `size` is set; filled if there is an entry. Its texts live until the next call on the
 * iterator. `error`: may be NULL.
 *
 * Returns 1 if there is an entry, 0 at the end; DFS_E_NOT_FOUND if the directory was deleted
 * meanwhile; DFS_E_INVALID_ARGUMENT (an impossible `info->size`); DFS_E_WOULD_BLOCK if another
 * thread is using the iterator; network statuses, DFS_E_CLOSED, DFS_E_NULL_POINTER,
 * DFS_E_BAD_HANDLE, DFS_E_FORKED. After a failure of the network the call may be repeated.
 *
 * Threads: any, one at a time per handle. Blocks as dfs_stat where a page ends. Since 0.1.
 */
int32_t dfs_list_next(struct dfs_list_iter *iter,
                      struct dfs_file_info *info,
                      struct dfs_error **error);

/**
 * Frees an iterator and the texts of its entry. NULL is fine.
 *
 * Threads: any. Does not block. Since 0.1.
 */
void dfs_list_free(struct dfs_list_iter *iter);

/**
 * Fetches the blocks that hold a part of a file, in order.
 *
 * `path`: absolute. `offset`, `length`: the part, in bytes; UINT64_MAX as length: to the end.
 * `out`: receives the blocks, to be freed with dfs_blocks_free. `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_IS_DIRECTORY, DFS_E_PERMISSION...; and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_block_locations(struct dfs_fs *fs,
                            const char *path,
                            uint64_t offset,
                            uint64_t length,
                            struct dfs_blocks **out,
                            struct dfs_error **error);

/**
 * Number of blocks.
 *
 * Returns the number, DFS_E_NULL_POINTER or DFS_E_BAD_HANDLE.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int64_t dfs_blocks_count(const struct dfs_blocks *blocks);

/**
 * Describes one block.
 *
 * `index`: from 0, below dfs_blocks_count. `info`: `size` is set. `error`: may be NULL.
 *
 * Returns DFS_OK, DFS_E_INVALID_ARGUMENT (index, or an impossible `info->size`),
 * DFS_E_NULL_POINTER or DFS_E_BAD_HANDLE.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int32_t dfs_blocks_get(const struct dfs_blocks *blocks,
                       size_t index,
                       struct dfs_block_info *info,
                       struct dfs_error **error);

/**
 * Describes one replica of a block; the nearest comes first. Its texts live until the blocks are
 * freed.
 *
 * `index`: of the block. `replica`: from 0, below `replica_count` of the block. `info`: `size` is
 * set. `error`: may be NULL.
 *
 * Returns DFS_OK, DFS_E_INVALID_ARGUMENT (index or replica, or an impossible `info->size`),
 * DFS_E_NULL_POINTER or DFS_E_BAD_HANDLE.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int32_t dfs_blocks_replica(const struct dfs_blocks *blocks,
                           size_t index,
                           size_t replica,
                           struct dfs_replica_info *info,
                           struct dfs_error **error);

/**
 * Frees blocks and their texts. NULL is fine.
 *
 * Threads: any. Does not block. Since 0.1.
 */
void dfs_blocks_free(struct dfs_blocks *blocks);

/**
 * Adds up a file or a tree. The NameNode walks the tree, so this may take long.
 *
 * `path`: absolute. `info`: `size` is set. `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_PERMISSION...; DFS_E_INVALID_ARGUMENT (an impossible
 * `info->size`); and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_content_summary(struct dfs_fs *fs,
                            const char *path,
                            struct dfs_content_info *info,
                            struct dfs_error **error);

/**
 * Fetches capacity and health of the file system.
 *
 * `info`: `size` is set. `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_INVALID_ARGUMENT (an impossible `info->size`); and as dfs_stat.
 *
 * Threads and blocking: as dfs_stat. Since 0.1.
 */
int32_t dfs_fs_status(struct dfs_fs *fs, struct dfs_fs_info *info, struct dfs_error **error);

/**
 * Has the DataNodes compute a checksum that can be compared with those of Hadoop's clients.
 *
 * `path`: absolute. `length`: bytes from the start that count; UINT64_MAX: all. `mode`: one of
 * DFS_FILE_CHECKSUM_*. `info`: `size` is set. `error`: may be NULL.
 *
 * Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_IS_DIRECTORY, DFS_E_PERMISSION...; DFS_E_BLOCK_MISSING,
 * or what the last DataNode said, if no replica of a block answers; DFS_E_UNSUPPORTED if the file
 * or a DataNode has no checksum of that kind; DFS_E_INVALID_ARGUMENT (mode, or an impossible
 * `info->size`); and as dfs_stat.
 *
 * Threads: any, concurrent. Blocks up to the limit of the file system (dfs_fs_set_timeout), and
 * within it up to `dfs.client.socket-timeout` plus 3 s a replica for each replica. Since 0.1.
 */
int32_t dfs_checksum(struct dfs_fs *fs,
                     const char *path,
                     uint64_t length,
                     int32_t mode,
                     struct dfs_checksum_info *info,
                     struct dfs_error **error);

/**
 * Computes the checksum of each chunk of a buffer, as HDFS stores and sends it: 4 bytes a chunk,
 * big-endian.
 *
 * `type`: one of DFS_CHECKSUM_*; DFS_CHECKSUM_DEFAULT is CRC-32C. `bytes_per_checksum`: bytes of a
 * chunk, at least 1; the last one may be shorter. `data`, `len`: the bytes. `sums`, `sums_len`:
 * memory for the sums, which must not overlap the data. `error`: may be NULL.
 *
 * Returns the bytes of sums that were stored: 4 * ceil(len / bytes_per_checksum), or 0 for
 * DFS_CHECKSUM_NULL; DFS_E_INVALID_ARGUMENT (type, chunk size, or too little memory);
 * DFS_E_NULL_POINTER.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int64_t dfs_checksum_chunks(int32_t type,
                            size_t bytes_per_checksum,
                            const void *data,
                            size_t len,
                            void *sums,
                            size_t sums_len,
                            struct dfs_error **error);

/**
 * Compares each chunk of a buffer with its checksum; the layout is that of dfs_checksum_chunks.
 *
 * `bad_chunk`: receives the index, from 0, of the first chunk that does not match; may be NULL.
 * The other parameters are those of dfs_checksum_chunks.
 *
 * Returns DFS_OK; DFS_E_CHECKSUM if a chunk does not match; DFS_E_INVALID_ARGUMENT (type, chunk
 * size, or too few sums); DFS_E_NULL_POINTER.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int32_t dfs_verify_chunks(int32_t type,
                          size_t bytes_per_checksum,
                          const void *data,
                          size_t len,
                          const void *sums,
                          size_t sums_len,
                          uint64_t *bad_chunk,
                          struct dfs_error **error);

/**
 * Reads the counters of a file system.
 *
 * `stats`: `size` is set. `error`: may be NULL.
 *
 * Returns DFS_OK, DFS_E_INVALID_ARGUMENT (an impossible `stats->size`), DFS_E_NULL_POINTER,
 * DFS_E_BAD_HANDLE or DFS_E_FORKED.
 *
 * Threads: any, concurrent. Does not block. Since 0.1.
 */
int32_t dfs_stats_get(const struct dfs_fs *fs, struct dfs_stats *stats, struct dfs_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DFS_H */

/** Initial value of dfs_open_options: its size, and defaults. */
#define DFS_OPEN_OPTIONS_INIT \
  { (uint32_t)sizeof(dfs_open_options), 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0 }
