#include "tests/sim/truth.h"

#include "common/call_kind.h"

#define SHAPE_OF_BIRTH      \
    {                       \
        kBirth, true, false \
    }
#define SHAPE_OF_BIRTH_ALIGNED \
    {                          \
        kBirth, true, true     \
    }
#define SHAPE_OF_REALLOC      \
    {                         \
        kRealloc, true, false \
    }
#define SHAPE_OF_DEATH       \
    {                        \
        kDeath, false, false \
    }
#define SHAPE_OF_DEATH_SIZED \
    {                        \
        kDeath, true, false  \
    }
#define SHAPE_OF_DEATH_ALIGNED \
    {                          \
        kDeath, false, true    \
    }
#define SHAPE_OF_DEATH_SIZED_ALIGNED \
    {                                \
        kDeath, true, true           \
    }
#define SHAPE_OF_HEAP       \
    {                       \
        kHeap, false, false \
    }

/* The list has its lines in the order of the numbers, from 1 without a gap; 45 to 47 are undefined. */
#define KIND_TRAITS(number, identifier, name, shape) SHAPE_OF_##shape,
const KindTraits kind_traits[48] = {{kNoShape, false, false}, CALL_KIND_LIST(KIND_TRAITS)};
