#include "tests/sim/truth.h"

#include "common/call_kind.h"

#define SHAPE_OF_ALLOCATION      \
    {                            \
        kAllocation, true, false \
    }
#define SHAPE_OF_ALLOCATION_ALIGNED \
    {                               \
        kAllocation, true, true     \
    }
#define SHAPE_OF_REALLOC      \
    {                         \
        kRealloc, true, false \
    }
#define SHAPE_OF_FREE       \
    {                       \
        kFree, false, false \
    }
#define SHAPE_OF_FREE_SIZED \
    {                       \
        kFree, true, false  \
    }
#define SHAPE_OF_FREE_ALIGNED \
    {                         \
        kFree, false, true    \
    }
#define SHAPE_OF_FREE_SIZED_ALIGNED \
    {                               \
        kFree, true, true           \
    }
#define SHAPE_OF_HEAP       \
    {                       \
        kHeap, false, false \
    }

/* The list has its lines in the order of the numbers, from 1 without a gap; 45 to 47 are
 * undefined. */
#define KIND_TRAITS(number, identifier, name, shape) SHAPE_OF_##shape,
const KindTraits kind_traits[48] = {{kNoShape, false, false}, CALL_KIND_LIST(KIND_TRAITS)};
