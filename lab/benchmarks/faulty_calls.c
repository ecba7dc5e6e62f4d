/* Fails calls of this process to the C library, as a disk, a table of descriptors or memory may.

Loaded with LD_PRELOAD, so that what SQLite, libgit2 and Arrow call themselves is covered as well as
what Python calls. A function of the caller's is asked about each call, and gives the error, or 0. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

typedef int (*decide_t)(const char *call, const char *path, int descriptor);
static decide_t decide;
static pid_t owner;
static __thread int busy;

void faulty_calls_ask(decide_t function)
{
    owner = getpid();
    decide = function;
}

static int fails(const char *call, const char *path, int descriptor)
{
    int error, kept = errno;
    if (!decide || busy || getpid() != owner)
        return 0;
    busy = 1;
    error = decide(call, path ? path : "", descriptor);
    busy = 0;
    errno = error ? error : kept;
    return error;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        mode_t mode = 0; va_list more; REAL(name); \
        va_start(more, flags); \
        if (flags & (O_CREAT | O_TMPFILE)) mode = va_arg(more, mode_t); \
        va_end(more); \
        return fails("open", path, -1) ? -1 : real(path, flags, mode); }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) { \
        mode_t mode = 0; va_list more; REAL(name); \
        va_start(more, flags); \
        if (flags & (O_CREAT | O_TMPFILE)) mode = va_arg(more, mode_t); \
        va_end(more); \
        return fails("open", path, -1) ? -1 : real(at, path, flags, mode); }
OPENAT(openat)
OPENAT(openat64)

FILE *fopen(const char *path, const char *mode)
{ REAL(fopen); return fails("open", path, -1) ? NULL : real(path, mode); }
FILE *fopen64(const char *path, const char *mode)
{ REAL(fopen64); return fails("open", path, -1) ? NULL : real(path, mode); }
DIR *opendir(const char *path)
{ REAL(opendir); return fails("open", path, -1) ? NULL : real(path); }
DIR *fdopendir(int fd)
{ REAL(fdopendir); return fails("open", NULL, fd) ? NULL : real(fd); }

ssize_t read(int fd, void *to, size_t size)
{ REAL(read); return fails("read", NULL, fd) ? -1 : real(fd, to, size); }
ssize_t pread(int fd, void *to, size_t size, off_t at)
{ REAL(pread); return fails("read", NULL, fd) ? -1 : real(fd, to, size, at); }
ssize_t pread64(int fd, void *to, size_t size, off64_t at)
{ REAL(pread64); return fails("read", NULL, fd) ? -1 : real(fd, to, size, at); }
ssize_t write(int fd, const void *from, size_t size)
{ REAL(write); return fails("write", NULL, fd) ? -1 : real(fd, from, size); }
ssize_t pwrite(int fd, const void *from, size_t size, off_t at)
{ REAL(pwrite); return fails("write", NULL, fd) ? -1 : real(fd, from, size, at); }
ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at)
{ REAL(pwrite64); return fails("write", NULL, fd) ? -1 : real(fd, from, size, at); }
int fsync(int fd) { REAL(fsync); return fails("write", NULL, fd) ? -1 : real(fd); }
int fdatasync(int fd) { REAL(fdatasync); return fails("write", NULL, fd) ? -1 : real(fd); }
int ftruncate(int fd, off_t size)
{ REAL(ftruncate); return fails("write", NULL, fd) ? -1 : real(fd, size); }
int ftruncate64(int fd, off64_t size)
{ REAL(ftruncate64); return fails("write", NULL, fd) ? -1 : real(fd, size); }

#define STAT(name, type) \
    int name(const char *path, struct type *to) \
    { REAL(name); return fails("stat", path, -1) ? -1 : real(path, to); }
STAT(stat, stat)
STAT(lstat, stat)
STAT(stat64, stat64)
STAT(lstat64, stat64)
int fstat(int fd, struct stat *to)
{ REAL(fstat); return fails("stat", NULL, fd) ? -1 : real(fd, to); }
int fstat64(int fd, struct stat64 *to)
{ REAL(fstat64); return fails("stat", NULL, fd) ? -1 : real(fd, to); }
int fstatat(int at, const char *path, struct stat *to, int flags)
{ REAL(fstatat); return fails("stat", path, -1) ? -1 : real(at, path, to, flags); }
int fstatat64(int at, const char *path, struct stat64 *to, int flags)
{ REAL(fstatat64); return fails("stat", path, -1) ? -1 : real(at, path, to, flags); }
int access(const char *path, int how)
{ REAL(access); return fails("stat", path, -1) ? -1 : real(path, how); }

int rename(const char *from, const char *to)
{ REAL(rename); return fails("rename", to, -1) ? -1 : real(from, to); }
int renameat(int a, const char *from, int b, const char *to)
{ REAL(renameat); return fails("rename", to, -1) ? -1 : real(a, from, b, to); }
int link(const char *from, const char *to)
{ REAL(link); return fails("rename", to, -1) ? -1 : real(from, to); }
int unlink(const char *path)
{ REAL(unlink); return fails("rename", path, -1) ? -1 : real(path); }
int mkdir(const char *path, mode_t mode)
{ REAL(mkdir); return fails("open", path, -1) ? -1 : real(path, mode); }
pid_t fork(void)
{ REAL(fork); return fails("fork", NULL, -1) ? -1 : real(); }
