#include "reading/linked.h"

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
#define LINE_BYTES_MAX 16384u /* of 65 536 that metadata may have */

struct linked {
    const struct others *others;
    char *names;
    size_t bytes, room; /* with the end of the string */
};

static void linked_add(struct linked *list, const char *name)
{
    const size_t bytes = strlen(name);
    if (bytes == 0 || bytes > NAME_MAX || strpbrk(name, ",\n") != NULL ||
        name_list_has(list->names, name) || others_file(list->others, name) == NULL ||
        list->bytes + bytes + 1 > LIST_BYTES_MAX ||
        !array_reserve(&list->names, &list->room, list->bytes + bytes + 1, 1))
        return;
    if (list->bytes > 0) list->names[list->bytes - 1] = ',';
    memcpy(list->names + list->bytes, name, bytes);
    list->bytes += bytes + 1;
}

/* Adds what the dynamic section of a file names. */
static void linked_add_dynamic(struct linked *list, Elf *elf, Elf_Scn *section)
{
    GElf_Shdr header;
    GElf_Dyn entry;
    if (gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_DYNAMIC) return;
    Elf_Data *const data = elf_getdata(section, NULL);
    for (int i = 0; data != NULL && gelf_getdyn(data, i, &entry) != NULL; i++) {
        const char *const name = entry.d_tag == DT_NEEDED
                                     ? elf_strptr(elf, header.sh_link, (size_t)entry.d_un.d_val)
                                     : NULL;
        if (name != NULL) linked_add(list, name);
    }
}

static void linked_add_needed(struct linked *list, const char *path)
{
    struct stat about;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return;
    elf_version(EV_CURRENT);
    Elf *const elf =
        fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
    for (Elf_Scn *section = NULL; elf != NULL && (section = elf_nextscn(elf, section)) != NULL;)
        linked_add_dynamic(list, elf, section);
    elf_end(elf);
    close(fd);
}

char *linked_list(const struct others *others)
{
    struct linked list = {.others = others};
    if (others->has != NULL && *others->has != '\0')
        return strlen(others->has) < LIST_BYTES_MAX ? strdup(others->has) : NULL;
    char name[NAME_MAX + 1];
    if (others->files_bytes > 0) linked_add_needed(&list, others->files);
    for (size_t at = 0; at < list.bytes; at += strlen(name) + 1) {
        const size_t bytes = strcspn(list.names + at, ",");
        memcpy(name, list.names + at, bytes);
        name[bytes] = '\0';
        linked_add_needed(&list, others_file(others, name));
    }
    return list.names;
}

char *linked_line(const struct others *others)
{
    char *line = NULL;
    if (others->has != NULL && *others->has != '\0') return NULL;
    char *const list = linked_list(others);
    if (list != NULL && strlen(list) < LINE_BYTES_MAX &&
        asprintf(&line, "program.has=%s\n", list) < 0)
        line = NULL;
    free(list);
    return line;
}
