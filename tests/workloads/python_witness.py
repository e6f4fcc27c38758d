"""python_witness.py CALLS NOTES - a program that notes the Python stacks of its own allocations.

Each of its threads asks malloc for objects of a size of its own, from everything that Python has:
generators, coroutines, exceptions, recursion, decorators, callbacks of C, code that is made and
dies. NOTES gets a line for each thread and each stack:

    t SIZE STACK STACK ...                 the stacks of the thread's objects, in order
    s STACK FUNCTION:LINE;FUNCTION:LINE... innermost first
"""
import asyncio
import ctypes
import functools
import gc
import importlib.util
import os
import sys
import tempfile
import threading
import zlib

try:
    import _xxsubinterpreters as subinterpreters
except ImportError:  # from 3.13 on
    subinterpreters = None

calls, notes_path = int(sys.argv[1]), sys.argv[2]
# With the lock of the interpreter, and without.
WITH_LOCK, WITHOUT = ctypes.PyDLL(None), ctypes.CDLL(None)
for library in WITH_LOCK, WITHOUT:
    library.malloc.argtypes = [ctypes.c_size_t]
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]

stacks, lock = {}, threading.Lock()
STACK_OF = '''
def stack_of(frame):
    found = []
    while frame is not None:
        found.append(f'{frame.f_code.co_qualname}:{frame.f_lineno or 0}')
        frame = frame.f_back
    return found
'''
exec(STACK_OF)


class Thread:
    """What one thread has noted."""

    def __init__(self, size, most):
        self.size, self.most, self.noted = size, most, []

    def ask(self):
        library = WITHOUT if len(self.noted) % 16 == 0 else WITH_LOCK
        malloc, free = library.malloc, library.free
        object = malloc(self.size); line = sys._getframe().f_lineno
        free(object)
        key = ';'.join([f'Thread.ask:{line}'] + stack_of(sys._getframe(1)))
        with lock:
            self.noted.append(stacks.setdefault(key, len(stacks)))

    @property
    def is_done(self):
        return len(self.noted) >= self.most


def logged(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)
    return wrapper


def recursion(thread, depth):
    if depth == 0:
        thread.ask()
        return 0
    return 1 + recursion(thread, depth - 1)


def numbers(thread, count):
    for i in range(count):
        thread.ask()
        yield i


def chained(thread):
    yield from numbers(thread, 2)
    yield from (thread.ask() for _ in range(2))


def catching(thread):
    try:
        yield
    except ValueError:
        thread.ask()
    finally:
        thread.ask()


def waiting(thread, depth):
    yield from waiting(thread, depth - 1) if depth else catching(thread)
    thread.ask()


def thrown(thread, depth):
    """Into generators that wait for others: they are passed over, but are there."""
    for end in lambda waits: waits.throw(ValueError()), lambda waits: waits.close():
        generator = waiting(thread, depth)
        next(generator)
        try:
            end(generator)
        except StopIteration:
            pass


class Raises:
    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.thread.ask()
        return True

    def __init__(self, thread):
        self.thread = thread

    def __lt__(self, other):
        self.thread.ask()
        return False

    def __del__(self):
        self.thread.ask()


def raising(thread, depth):
    try:
        if depth == 0:
            raise ValueError
        raising(thread, depth - 1)
    except ValueError:
        thread.ask()
        raise
    finally:
        thread.ask()


@logged
def caught(thread):
    with Raises(thread):
        raising(thread, 3)


@logged
@logged
def decorated(thread):
    [thread.ask() for _ in range(2)]
    (lambda: thread.ask())()


async def task(thread, i):
    await asyncio.sleep(0)
    thread.ask()
    async with Async(thread):
        async for _ in ticks(thread):
            thread.ask()


class Async:
    def __init__(self, thread):
        self.thread = thread

    async def __aenter__(self):
        self.thread.ask()

    async def __aexit__(self, *what):
        self.thread.ask()


async def ticks(thread):
    for i in range(2):
        await asyncio.sleep(0)
        yield i


async def tasks(thread):
    await asyncio.gather(*(task(thread, i) for i in range(3)))


def called_by_c(thread):
    sorted([Raises(thread), Raises(thread)])
    list(map(lambda _: thread.ask(), range(2)))
    max([1, 2], key=lambda _: thread.ask() or 0)
    functools.reduce(lambda a, b: thread.ask(), [1, 2, 3])
    ctypes.CFUNCTYPE(None)(lambda: thread.ask())()
    zlib.compress(b'x' * 1000)


def made(thread, number):
    """Code at the same place as the one before, under another name or at other lines."""
    name = f'f{number % 89:02}'
    text = '\n' * (number % 7) + f'def {name}(thread):\n' + '\n' * (number % 5) + ' thread.ask()\n'
    where = {}
    exec(compile(text, '<made>', 'exec'), where)
    where[name](thread)
    eval(f'thread.ask() or {number}', {'thread': thread})
    with tempfile.NamedTemporaryFile('w', suffix='.py') as file:
        file.write(text + f'class C{number % 11}:\n def m(self, thread):\n  {name}(thread)\n')
        file.flush()
        spec = importlib.util.spec_from_file_location('reloaded', file.name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        getattr(module, f'C{number % 11}')().m(thread)


# Run in another interpreter, with and without its lock.
OTHER = STACK_OF + '''
import ctypes, sys

def ask(depth):
    if depth:
        return ask(depth - 1)
    for library in ctypes.PyDLL(None), ctypes.CDLL(None):
        library.malloc.restype = ctypes.c_void_p
        malloc = library.malloc
        malloc(7010); line = sys._getframe().f_lineno
        noted.append(';'.join([f'ask:{line}'] + stack_of(sys._getframe(1))))

noted = []
for depth in range(3):
    ask(depth)
file = open(path, 'a')
for i, stack in enumerate(noted):
    print('s', 1000000 + i, stack, file=file)
print('t', 7010, *range(1000000, 1000000 + len(noted)), file=file)
file.close()
'''


def work(thread):
    round = 0
    while not thread.is_done:
        recursion(thread, 1 + round % 40)
        list(chained(thread))
        thrown(thread, round % 4)
        caught(thread)
        decorated(thread)
        called_by_c(thread)
        if round % 8 == 0:
            asyncio.run(tasks(thread))
        if round % 4 == 0:
            made(thread, round)
        round += 1


sys.dont_write_bytecode = True
threads = [Thread(7001 + i, calls // 4) for i in range(4)]
running = [threading.Thread(target=work, args=(thread,)) for thread in threads[1:]]
for thread in running:
    thread.start()
work(threads[0])
for thread in running:
    thread.join()
gc.collect()
with open(notes_path, 'w') as file:
    for key, number in stacks.items():
        print('s', number, key, file=file)
    for thread in threads:
        print('t', thread.size, *thread.noted, file=file)
if subinterpreters:
    other = subinterpreters.create(isolated=False)
    subinterpreters.run_string(other, f'path = {notes_path!r}\n' + OTHER)
    subinterpreters.destroy(other)
