#include "compare/machine.h"

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/json_file.h"
#include "common/printable.h"

/* The first line of a file, without its end; empty: there is none. */
static const char *line_read(const char *path, char *line, size_t bytes)
{
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(line, (int)bytes, file) == NULL) *line = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (file != NULL) fclose(file);
    return line;
}

/* The processor's name in /proc/cpuinfo; empty: it has none. */
static const char *processor_read(char *name, size_t bytes)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    *name = '\0';
    while (file != NULL && *name == '\0' && fgets(line, sizeof line, file) != NULL) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || value == NULL) continue;
        value += 1 + strspn(value + 1, " ");
        snprintf(name, bytes, "%.*s", (int)strcspn(value, "\n"), value);
    }
    if (file != NULL) fclose(file);
    return name;
}

static const char *machine_known(const char *text)
{
    return *text != '\0' ? text : NULL;
}

/* Puts the frequency governors of all processors, each once; usually there is one. */
static void put_governors(json_t *machine)
{
    char governors[256] = "", line[64];
    glob_t files;
    if (glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor", 0, NULL, &files) == 0) {
        for (size_t i = 0; i < files.gl_pathc; i++) {
            line_read(files.gl_pathv[i], line, sizeof line);
            const size_t used = strlen(governors);
            if (*line != '\0' && strstr(governors, line) == NULL)
                snprintf(governors + used, sizeof governors - used, "%s%s", used > 0 ? ", " : "",
                         line);
        }
        globfree(&files);
    }
    json_put_text(machine, "governor", machine_known(governors));
}

/* Puts the choice in brackets, as in "always [madvise] never". */
static void put_choice(json_t *machine, const char *key, const char *path)
{
    char line[128];
    char *chosen = strchr(line_read(path, line, sizeof line), '[');
    if (chosen != NULL) chosen[strcspn(chosen, "]")] = '\0';
    json_put_text(machine, key, chosen != NULL ? chosen + 1 : NULL);
}

static void put_numa_nodes(json_t *machine)
{
    glob_t nodes;
    const bool any = glob("/sys/devices/system/node/node[0-9]*", 0, NULL, &nodes) == 0;
    json_put_real(machine, "numa_nodes", NAN);
    if (!any) return;
    json_put_number(machine, "numa_nodes", nodes.gl_pathc);
    globfree(&nodes);
}

json_t *machine_json(void)
{
    json_t *machine = json_object();
    struct utsname system;
    char text[256];
    double load;
    json_put_text(machine, "processor", machine_known(processor_read(text, sizeof text)));
    json_object_set_new(machine, "processors", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    if (uname(&system) == 0) {
        snprintf(text, sizeof text, "%.80s %.80s %.80s", system.sysname, system.release,
                 system.machine);
        json_put_text(machine, "system", text);
        json_put_text(machine, "host", system.nodename);
    }
    put_governors(machine);
    json_put_real(machine, "load", getloadavg(&load, 1) == 1 ? load : NAN);
    put_numa_nodes(machine);
    put_choice(machine, "transparent_hugepages", "/sys/kernel/mm/transparent_hugepage/enabled");
    put_choice(machine, "transparent_hugepages_defrag",
               "/sys/kernel/mm/transparent_hugepage/defrag");
    return machine;
}

void machine_print(const json_t *machine, bool load, FILE *to)
{
    static const struct {
        const char *key, *before;
    } texts[] = {{"system", ""},
                 {"governor", "governor "},
                 {"transparent_hugepages", "transparent huge pages "}};
    const char *processor = json_string_value(json_object_get(machine, "processor"));
    const long long processors = json_integer_value(json_object_get(machine, "processors"));
    const long long nodes = json_integer_value(json_object_get(machine, "numa_nodes"));
    if (processor != NULL) fprintf(to, "%s, ", printable_text(processor));
    fprintf(to, "%lld processor%s", processors, processors == 1 ? "" : "s");
    if (nodes > 1) fprintf(to, " on %lld NUMA nodes", nodes);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *value = json_string_value(json_object_get(machine, texts[i].key));
        if (value != NULL) fprintf(to, ", %s%s", texts[i].before, printable_text(value));
    }
    const json_t *loaded = json_object_get(machine, "load");
    if (load && json_is_number(loaded)) fprintf(to, ", load %.2f", json_number_value(loaded));
}
