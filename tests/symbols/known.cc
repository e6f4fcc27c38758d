/* known - compiled by tests/symbols/symbols_test.rb, which looks for the line of each place that has
 * a name. */
#define MARK(name) __asm__ volatile(".globl " #name "\n" #name ": nop")
#define INLINE     inline __attribute__((always_inline))
#define ALONE      __attribute__((noinline, noclone))

namespace outer {

struct Counter {
    int value;
    explicit INLINE Counter(int n)
    {
        MARK(in_constructor);
        value = n;
    }
    INLINE int add(int n)
    {
        MARK(in_inlined);
        return value += n;
    }
    static int later(int n);
};

static INLINE int twice(Counter &counter, int n)
{
    return counter.add(n) + n; /* calls in_inlined */
}

template <typename T> ALONE T templated(T n)
{
    MARK(in_template);
    return n + 1;
}

namespace {
ALONE int hidden(int n)
{
    MARK(in_hidden);
    return n * 3;
}
} // namespace

} // namespace outer

extern "C" int plain(int n);

ALONE int overloaded(const char *text, int n)
{
    MARK(in_overloaded);
    return text[n];
}

extern "C" ALONE int plain(int n)
{
    outer::Counter counter(n);        /* calls in_constructor */
    return outer::twice(counter, n) + /* calls twice */
           outer::templated<long>(n) + outer::hidden(n) + overloaded("text", n);
}

int outer::Counter::later(int n)
{
    const auto lambda = [](int m) ALONE { /* the first */
        MARK(in_lambda);
        return m + 7;
    };
    const auto other = [n](int m) ALONE {
        const auto within = [m, n](auto l) ALONE { /* within the other */
            MARK(in_other_lambda);
            return m * l + n;
        };
        return within(7L);
    };
    return lambda(n) + other(n);
}

const auto outside = [](int m) ALONE { /* of no function */
    MARK(in_outside);
    return m + 9;
};

int main(int count, char **)
{
    return plain(count) + outer::Counter::later(count) + outside(count);
}
