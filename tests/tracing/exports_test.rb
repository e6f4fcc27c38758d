#!/usr/bin/env ruby
# exports_test.rb - whatever function of the malloc family the C library or an allocator exports, the
# libraries that record do, too. If they did not, a program that is linked with that allocator would
# take objects from one heap and free them into another. Prints TAP.

require 'tmpdir'

require_relative '../tap'

DIRECTORIES = %w[/usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64 /usr/lib /usr/local/lib].freeze
RECORDERS = %w[libtcmalloc_minimal_tracing.so libmalloctape.so].freeze
# Of these, what is installed.
ALLOCATORS = %w[libjemalloc.so.2 libmimalloc.so.2 libmimalloc.so.3 libtcmalloc_minimal.so.4
                libsnmallocshim.so].freeze
ENTRY_POINTS = File.join(BUILD, 'tests/workloads/entry_points')

# Of the C library, what may be of the family.
FAMILY = /alloc|free|memalign|strn?dup|wcsdup/.freeze

# What need not be there, and why.
NOT_NEEDED = {
  /\A_?_?mi_|\A_mi_|\Atc_|\Asn_|\Aje_/ => 'of one allocator: its objects are freed in this way, too',
  /\A[msxr]?(sd|[drsx])?allocx\z|\Asmallocx_/ => 'the same, of jemalloc (docs/recording.md says so)',
  /\A(mallctl|malloc_stats_print|malloc_message|malloc_conf)/ => 'of jemalloc: no object',
  /\A(MallocExtension_|MallocHook_|TCMalloc|perftools_|malloctape_|RunningOnValgrind)/ =>
    'of tcmalloc: no object',
  /\A_Z(?!n[wa]|d[la])|\A_(init|fini)\z/ => 'C++ names other than operators',
  /\A(mallinfo2?|malloc_(info|stats|good_size|get_state|set_state|size))\z|\Anallocx\z/ =>
    'no object, or only asks; libmalloctape leaves it to the allocator behind',
  /\A(mmap|mmap64|munmap|mremap|sbrk)\z/ => 'system calls',
  /\A_IO_|\A__libc_(alloc_buffer|alloca_cutoff|allocate_|freeres|scratch)/ => 'inside of libc',
  /\A(posix_)?fallocate(64)?\z|\Apkey_|\A_?_?obstack_|\A_obstack/ => 'not of malloc, or over it',
  /\A__sched_cpu|\A(__)?free(locale|addrinfo|ifaddrs)\z|\A(glob|reg|word|xdr_)free(64)?\z/ =>
    'over malloc() and free()',
  /\Aif_freenameindex\z|\Ainet6_option_alloc\z/ => 'over malloc() and free()',
  /\A(__strn?dup|wcsdup|__libc_reallocarray)\z/ => 'over the public malloc() or realloc()'
}.freeze

def exports(library)
  output_of({}, 'nm', '-D', '--defined-only', library).lines.map(&:split)
    .select { |line| line[1] =~ /\A[TWi]\z/ }.map { |line| line[2].sub(/@.*/, '') }.uniq
end

def find(name)
  DIRECTORIES.map { |directory| File.join(directory, name) }.find { |path| File.exist?(path) }
end

def of_family(names)
  names.reject { |name| NOT_NEEDED.keys.any? { |rule| rule.match?(name) } }
end

def missing(names, recorder)
  of_family(names) - exports(File.join(BUILD, 'lib', recorder))
end

def check_recorder(recorder, of, names)
  lacking = missing(names, recorder)
  report lacking.empty?, "#{recorder} has what #{of} exports"
  lacking.each { |name| puts "# #{of}: #{name}" }
end

# What a program does with its objects when an allocator with all of these names comes behind.
def runs_before?(recorder, allocator, scratch)
  preload = [File.join(BUILD, 'lib', recorder), allocator].join(':')
  names = of_family(exports(allocator)) & %w[reallocarray reallocarr reallocf strdup strndup]
  environment = { 'LD_PRELOAD' => preload, 'TCMALLOC_TRACE_OUTPUT' => File.join(scratch, 'raw') }
  system(environment, ENTRY_POINTS, *names, out: File::NULL, err: File::NULL)
end

libc = output_of({}, 'ldd', ENTRY_POINTS)[/libc\.so\.6 => (\S+)/, 1]
allocators = ALLOCATORS.map { |name| find(name) }.compact
plan 1 + RECORDERS.size * (1 + 2 * allocators.size)
report missing(%w[malloc a_new_malloc], RECORDERS.first) == %w[a_new_malloc], 'a new one is noticed'
Dir.mktmpdir do |scratch|
  RECORDERS.each do |recorder|
    check_recorder(recorder, 'libc.so.6', exports(libc).grep(FAMILY))
    allocators.each do |path|
      name = File.basename(path)
      check_recorder(recorder, name, exports(path))
      report runs_before?(recorder, path, scratch), "#{recorder} before #{name}: one heap"
    end
  end
end
