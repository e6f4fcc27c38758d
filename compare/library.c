#include "compare/library.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/name_list.h"

/* One word of a command line may have twice as much. */
#define LIST_BYTES_MAX 65536u

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

/* ---- what a program is linked with ---- */

struct library_list {
    const struct others *others;
    char *names;
    size_t bytes, room; /* with the end of the string */
};

static void library_list_add(struct library_list *list, const char *name)
{
    const size_t bytes = strlen(name);
    if (bytes == 0 || bytes > NAME_MAX || strchr(name, ',') != NULL ||
        name_list_has(list->names, name) || others_file(list->others, name) == NULL ||
        list->bytes + bytes + 1 > LIST_BYTES_MAX ||
        !array_reserve(&list->names, &list->room, list->bytes + bytes + 1, 1))
        return;
    if (list->bytes > 0) list->names[list->bytes - 1] = ',';
    memcpy(list->names + list->bytes, name, bytes);
    list->bytes += bytes + 1;
}

/* Adds what the dynamic section of a file names. */
static void library_list_add_dynamic(struct library_list *list, Elf *elf, Elf_Scn *section)
{
    GElf_Shdr header;
    GElf_Dyn entry;
    if (gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_DYNAMIC) return;
    Elf_Data *const data = elf_getdata(section, NULL);
    for (int i = 0; data != NULL && gelf_getdyn(data, i, &entry) != NULL; i++) {
        const char *const name = entry.d_tag == DT_NEEDED
                                     ? elf_strptr(elf, header.sh_link, (size_t)entry.d_un.d_val)
                                     : NULL;
        if (name != NULL) library_list_add(list, name);
    }
}

static void library_list_add_needed(struct library_list *list, const char *path)
{
    struct stat about;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return;
    elf_version(EV_CURRENT);
    Elf *const elf =
        fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
    for (Elf_Scn *section = NULL; elf != NULL && (section = elf_nextscn(elf, section)) != NULL;)
        library_list_add_dynamic(list, elf, section);
    elf_end(elf);
    close(fd);
}

char *library_list_of_program(const struct others *others)
{
    struct library_list list = {.others = others};
    char name[NAME_MAX + 1];
    if (others->files_bytes > 0) library_list_add_needed(&list, others->files);
    for (size_t at = 0; at < list.bytes; at += strlen(name) + 1) {
        const size_t bytes = strcspn(list.names + at, ",");
        memcpy(name, list.names + at, bytes);
        name[bytes] = '\0';
        library_list_add_needed(&list, others_file(others, name));
    }
    return list.names;
}
