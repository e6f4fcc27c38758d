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

int main(int count, char **)
{
    const auto lambda = [](int n) ALONE {
        MARK(in_lambda);
        return n + 7;
    };
    return plain(count) + lambda(count);
}
