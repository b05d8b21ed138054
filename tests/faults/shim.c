/* Makes a disk fail, and the time of day jump: preloaded into a server, it stands between the process and the files of one
 * database, and its clock.
 *
 * A file is meant when its own name contains $TIDINGS_FAULTS_NAME. What happens to it is said, while the process runs, in
 * the shared file $TIDINGS_FAULTS_CONTROL (`struct control`, which faulty.py writes). With $TIDINGS_FAULTS_SYNCED set, each
 * sync that succeeds leaves a copy of the file in that directory: what a loss of power would leave.
 *
 * What goes through a mapping (SQLite's -shm) or straight to the kernel (Rust's rustix: the locks) is not seen here.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Kinds of operations; faulty.py has the same numbers. */
enum { OPEN = 1, CREATE = 2, WRITE = 4, SYNC = 8, SIZE = 16, NAME = 32 };

struct control {
    int32_t kinds;   /* in: the kinds of operations that are meant */
    int32_t error;   /* in: they fail with this errno; 0: they do not */
    int32_t delay;   /* in: they take this many milliseconds more */
    int32_t hold;    /* in: not 0: they wait until it is */
    int32_t failed;  /* out: operations that were made to fail */
    int32_t waiting; /* out: operations that now wait */
    int32_t written; /* out: writes that went through */
    int32_t skew;    /* in: the time of day is so many seconds off */
};

static struct control *control;
static const char *name_part;
static const char *synced_dir;

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TIDINGS_FAULTS_CONTROL");
    name_part = getenv("TIDINGS_FAULTS_NAME");
    synced_dir = getenv("TIDINGS_FAULTS_SYNCED");
    if (path == NULL || name_part == NULL) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) {
        perror("tidings fault shim: control file");
        _exit(97);
    }
    void *map = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) {
        perror("tidings fault shim: control mapping");
        _exit(97);
    }
    control = map;
}

static int32_t get(int32_t *field) { return __atomic_load_n(field, __ATOMIC_ACQUIRE); }
static void add(int32_t *field, int32_t n) { __atomic_add_fetch(field, n, __ATOMIC_ACQ_REL); }

static const char *own_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static int path_is_meant(const char *path) {
    return control != NULL && path != NULL && strstr(own_name(path), name_part) != NULL;
}

static int path_of(int fd, char *path) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

static int fd_is_meant(int fd) {
    if (control == NULL) return 0;
    int before = errno;
    char path[PATH_MAX];
    int meant = path_of(fd, path) && path_is_meant(path);
    errno = before;
    return meant;
}

static void sleep_ms(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* What becomes of one operation on a file that is meant: 0, or -1 with errno set. */
static int befalls(int kind) {
    int before = errno;
    if (get(&control->kinds) & kind) {
        add(&control->waiting, 1);
        while (get(&control->hold) && (get(&control->kinds) & kind)) sleep_ms(1);
        int32_t delay = get(&control->delay);
        if (delay > 0) sleep_ms(delay);
        add(&control->waiting, -1);
    }
    errno = before;
    int32_t error = get(&control->error);
    if (error == 0 || !(get(&control->kinds) & kind)) return 0;
    add(&control->failed, 1);
    errno = error;
    return -1;
}

static int opening(const char *path, int flags) {
    if (!path_is_meant(path)) return 0;
    if (flags & O_CREAT) {
        int before = errno;
        int there = faccessat(AT_FDCWD, path, F_OK, 0) == 0;
        errno = before;
        if (!there) return befalls(CREATE);
    }
    return (flags & O_ACCMODE) == O_RDONLY ? 0 : befalls(OPEN);
}

static mode_t mode_of(int flags, va_list list) {
    return flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? (mode_t)va_arg(list, int) : 0;
}

#define OPENER(symbol)                                                     \
    int symbol(const char *path, int flags, ...) {                         \
        va_list list;                                                      \
        va_start(list, flags);                                             \
        mode_t mode = mode_of(flags, list);                                \
        va_end(list);                                                      \
        if (opening(path, flags) != 0) return -1;                          \
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);      \
    }
OPENER(open)
OPENER(open64)

#define OPENER_AT(symbol)                                                  \
    int symbol(int dir, const char *path, int flags, ...) {                \
        va_list list;                                                      \
        va_start(list, flags);                                             \
        mode_t mode = mode_of(flags, list);                                \
        va_end(list);                                                      \
        if (opening(path, flags) != 0) return -1;                          \
        return (int)syscall(SYS_openat, dir, path, flags, mode);           \
    }
OPENER_AT(openat)
OPENER_AT(openat64)

ssize_t write(int fd, const void *bytes, size_t count) {
    int meant = fd_is_meant(fd);
    if (meant && befalls(WRITE) != 0) return -1;
    ssize_t written = syscall(SYS_write, fd, bytes, count);
    if (meant && written >= 0) add(&control->written, 1);
    return written;
}

#define WRITER_AT(symbol, offset_type)                                                   \
    ssize_t symbol(int fd, const void *bytes, size_t count, offset_type at) {            \
        static ssize_t (*real)(int, const void *, size_t, offset_type);                  \
        if (real == NULL) real = next(#symbol);                                          \
        int meant = fd_is_meant(fd);                                                     \
        if (meant && befalls(WRITE) != 0) return -1;                                     \
        ssize_t written = real(fd, bytes, count, at);                                    \
        if (meant && written >= 0) add(&control->written, 1);                            \
        return written;                                                                  \
    }
WRITER_AT(pwrite, off_t)
WRITER_AT(pwrite64, off64_t)

#define SIZER(symbol, parameters, arguments, type)                         \
    int symbol parameters {                                                \
        static int(*real) parameters;                                      \
        if (real == NULL) real = next(#symbol);                            \
        if (fd_is_meant(fd) && befalls(SIZE) != 0) return type;            \
        return real arguments;                                             \
    }
SIZER(ftruncate, (int fd, off_t length), (fd, length), -1)
SIZER(ftruncate64, (int fd, off64_t length), (fd, length), -1)
SIZER(fallocate, (int fd, int mode, off_t at, off_t length), (fd, mode, at, length), -1)
SIZER(fallocate64, (int fd, int mode, off64_t at, off64_t length), (fd, mode, at, length), -1)
SIZER(posix_fallocate, (int fd, off_t at, off_t length), (fd, at, length), errno)
SIZER(posix_fallocate64, (int fd, off64_t at, off64_t length), (fd, at, length), errno)

/* The copy appears whole: a process that is killed while it copies leaves the older one. */
static void keep_synced(int fd) {
    char path[PATH_MAX], copy[PATH_MAX + 300], draft[PATH_MAX + 340], block[1 << 16];
    if (synced_dir == NULL || !path_of(fd, path)) return;
    snprintf(copy, sizeof copy, "%s/%s", synced_dir, own_name(path));
    snprintf(draft, sizeof draft, "%s.draft-%ld", copy, (long)syscall(SYS_gettid));
    int to = (int)syscall(SYS_openat, AT_FDCWD, draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (to < 0) _exit(98);
    /* Through the descriptor itself: to close a second one of the database would drop the process's locks on it. */
    off64_t at = 0;
    ssize_t got;
    while ((got = pread64(fd, block, sizeof block, at)) > 0) {
        if (syscall(SYS_write, to, block, (size_t)got) != got) _exit(98);
        at += got;
    }
    close(to);
    /* Descriptors that can only be written to (drafts of the key) leave nothing. */
    if (got < 0 ? unlinkat(AT_FDCWD, draft, 0) : renameat(AT_FDCWD, draft, AT_FDCWD, copy)) _exit(98);
}

#define SYNCER(symbol, number)                                             \
    int symbol(int fd) {                                                   \
        int meant = fd_is_meant(fd);                                       \
        if (meant && befalls(SYNC) != 0) return -1;                        \
        int done = (int)syscall(number, fd);                               \
        int after = errno;                                                 \
        if (meant && done == 0) keep_synced(fd);                           \
        errno = after;                                                     \
        return done;                                                       \
    }
SYNCER(fsync, SYS_fsync)
SYNCER(fdatasync, SYS_fdatasync)

int unlink(const char *path) {
    static int (*real)(const char *);
    if (real == NULL) real = next("unlink");
    if (path_is_meant(path) && befalls(NAME) != 0) return -1;
    return real(path);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
    static int (*real)(int, const char *, int, const char *, int);
    if (real == NULL) real = next("linkat");
    if (path_is_meant(to) && befalls(NAME) != 0) return -1;
    return real(from_dir, from, to_dir, to, flags);
}

int rename(const char *from, const char *to) {
    static int (*real)(const char *, const char *);
    if (real == NULL) real = next("rename");
    if (path_is_meant(to) && befalls(NAME) != 0) return -1;
    return real(from, to);
}

/* The clock that a person or NTP may set; those that only count on are left alone. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    int done = (int)syscall(SYS_clock_gettime, clock, now);
    int meant = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (done == 0 && meant && control != NULL) now->tv_sec += get(&control->skew);
    return done;
}
