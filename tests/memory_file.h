/* memory_file - a file in memory, for tests. */
#ifndef TESTS_MEMORY_FILE_H
#define TESTS_MEMORY_FILE_H

#include <sys/mman.h>
#include <unistd.h>

#include <string>

class MemoryFile {
  public:
    MemoryFile() : fd_(memfd_create("test", MFD_CLOEXEC)) {}
    explicit MemoryFile(const std::string &bytes) : MemoryFile()
    {
        size_t done = 0;
        while (done < bytes.size()) {
            ssize_t part = write(fd_, bytes.data() + done, bytes.size() - done);
            if (part <= 0) break;
            done += static_cast<size_t>(part);
        }
        lseek(fd_, 0, SEEK_SET);
    }
    MemoryFile(const MemoryFile &) = delete;
    MemoryFile &operator=(const MemoryFile &) = delete;
    ~MemoryFile() { close(fd_); }

    int fd() const { return fd_; }
    /* A name under which it can be opened. */
    std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }
    void rewind() const { lseek(fd_, 0, SEEK_SET); }

  private:
    int fd_;
};

#endif
