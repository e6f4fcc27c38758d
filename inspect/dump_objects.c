/* malloctape dump --objects - one line an object, in the order in which they end. */
#include "inspect/dump.h"
#include "reading/objects.h"
#include "reading/ordered.h"
#include "stream/instruction_reader.h"

static bool object_print(void *of, const struct object *object)
{
    const struct object_call *made = &object->made, *ended = &object->ended;
    (void)of;
    printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, call_names[made->kind],
           object->size, object->alignment, made->thread, made->call, made->ns);
    if (ended->kind == 0)
        fputs(" - - - -\n", stdout);
    else
        printf(" %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", call_names[ended->kind], ended->thread,
               ended->call, ended->ns);
    return ferror(stdout) == 0;
}

static int print_all(struct instruction_reader *reader)
{
    struct objects objects;
    struct instruction_batch batch;
    bool good = objects_open(&objects, object_print, NULL);
    instruction_reader_use_indices(reader);
    puts("# kind size alignment thread call ns ended_by thread call ns");
    while (good && instruction_reader_next(reader, &batch))
        good = objects_add(&objects, &batch);
    good = good && objects_end(&objects);
    objects_close(&objects);
    if (!good) error_set_system(&reader->error, "cannot continue");
    if (!good || reader->state == INSTRUCTIONS_FAILED) return PROGRAM_FAILED;
    const bool cut =
        reader->state == INSTRUCTIONS_CUT || reader->end_status == INSTRUCTION_STATUS_CUT;
    return cut ? PROGRAM_CUT : PROGRAM_OK;
}

int dump_objects(const char *path, struct error *error)
{
    struct ordered ordered;
    struct instruction_reader reader;
    int status = PROGRAM_FAILED;
    if (!ordered_open(&ordered, path, cli_dump.name, error)) return PROGRAM_FAILED;
    if (instruction_reader_open(&reader, ordered.input)) status = print_all(&reader);
    *error = reader.error;
    instruction_reader_close(&reader);
    const int ordering = ordered_close(&ordered, status != PROGRAM_FAILED);
    return status != PROGRAM_FAILED && ordering != PROGRAM_OK ? ordering : status;
}
