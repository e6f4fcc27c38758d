#include "compare/library.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <unistd.h>

const char *library_build_id(const char *path, char *text, size_t bytes)
{
    const void *id = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    *text = '\0';
    if (fd < 0) return text;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    const ssize_t id_bytes = elf != NULL ? dwelf_elf_gnu_build_id(elf, &id) : -1;
    for (ssize_t i = 0; i < id_bytes && 2 * (size_t)i + 2 < bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)id)[i]);
    elf_end(elf);
    close(fd);
    return text;
}
