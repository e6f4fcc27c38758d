/* avro_mappings - what the program did to its address space, as rows of an Avro file: export --to avro
 * --mappings FILE. */
#ifndef MALLOCTAPE_CONVERT_AVRO_MAPPINGS_H
#define MALLOCTAPE_CONVERT_AVRO_MAPPINGS_H

#include "convert/avro_file.h"

struct avro_mappings {
    struct avro_file file;
    struct export *export;
    const uint64_t *ns; /* of the latest tick */
    bool failed;
};

/* Takes the mappings that the reader meets. False: see export->error. */
bool avro_mappings_open(struct avro_mappings *mappings, struct export *export, const char *path,
                        struct instruction_reader *reader, const uint64_t *ns);
bool avro_mappings_end(struct avro_mappings *mappings);

#endif
