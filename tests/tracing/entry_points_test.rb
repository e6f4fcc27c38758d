#!/usr/bin/env ruby
# entry_points_test.rb - every function by which a program can reach the allocator is recorded as
# what it is.
#
# The list of functions is the symbol table of the built tracing library, so one that is new there
# and unknown to tests/workloads/entry_points.cc fails. Prints TAP.

require 'fileutils'
require 'tmpdir'

require_relative '../tap'

IS_TCMALLOC = ENV.fetch('MALLOCTAPE_FRONT_END', 'tcmalloc') == 'tcmalloc'
LIBRARY =
  File.join(BUILD, 'lib', IS_TCMALLOC ? 'libtcmalloc_minimal_tracing.so' : 'libmalloctape.so')
# The program knows what tcmalloc does.
NEXT_LIBRARY = IS_TCMALLOC ? nil : File.join(BUILD, 'lib/libtcmalloc_minimal.so')
PROGRAM = File.join(BUILD, 'tests/workloads/entry_points')
MALLOCTAPE = File.join(BUILD, 'bin/malloctape')
ENTRY_MARK = 7_000_000

# Exported, but not a way to the allocator.
NOT_ENTRY_POINTS = {
  /\AMallocHook_/ => 'hooks that programs set',
  /\A(mmap|mmap64|munmap|mremap|sbrk)\z/ => 'the system calls, for those hooks',
  /\A(brk|madvise|mprotect|posix_madvise|shmat|shmdt)\z/ => 'what is mapped; tests/tracing/mappings_test.sh',
  /\Aperftools_pthread_/ => 'upstream: threads where there may be none',
  /\A(TCMallocGetenvSafe|RunningOnValgrind)\z/ => 'upstream: helpers',
  /\A(release|set)_malloc_thread_cache\z/ => 'for replay; tests/gperftools/thread_cache_api_test.c',
  /\Amalloctape_library_/ => 'control of recordings; tests/tracing/control_test.sh',
  /\A(exec(l|le|lp|v|ve|vp|vpe|veat)|fexecve)\z/ => 'ends a recording; tests/tracing/follow_test.sh',
  /\Aposix_spawnp?\z/ => 'a program of another C library; tests/cli/cli_record_test.sh',
  /\A(syscall|prctl|chroot|pivot_root|capset|unshare|(setr|pr)limit(64)?)\z/ =>
    'before them the writer begins, or ends; tests/tracing/confine_test.sh, tests/tracing/give_up_test.sh',
  /\A(set(e|re|res|fs)?[ug]id|(set|init)groups)\z/ =>
    'before them the writer begins; tests/tracing/give_up_test.sh',
  /\A(sigaction|signal|(__)?sysv_signal|sigprocmask|pthread_sigmask)\z/ =>
    'SIGBUS is the recorder\'s; tests/tracing/recording_life_test.sh',
  /\Adlopen\z/ => 'without RTLD_DEEPBIND; tests/tracing/front_end_test.sh',
  /\Adlclose\z/ => 'code is there no more, for call stacks; tests/tracing/stacks_test.rb',
  /\A(_exit|_Exit)\z/ => 'ends a recording; tests/tracing/process_life_test.sh',
  /\A_Z(?!n[wa]|d[la])/ => 'C++ names other than operators'
}.freeze

# Reached through a C++ object, or in the C library over the entry points.
BESIDES = (IS_TCMALLOC ? %w[_ZN15MallocExtension8instanceEv] : []) + %w[__strdup]

def entry_points
  symbols = output_of({}, 'nm', '-D', '--defined-only', LIBRARY).lines.map(&:split)
    .select { |line| line[1] =~ /\A[TWi]\z/ }
  symbols.map { |line| line[2] }
    .reject { |name| NOT_ENTRY_POINTS.keys.any? { |rule| rule.match?(name) } }.uniq
end

# An object that the lane has is named by its place when it ends. Here it gets the name it was
# allocated with.
def resolved(lines)
  names = {}
  lines.map do |line|
    line = line.sub(/(?<= )@(\d+)/) { |place| names.fetch(place, place) }
    names[Regexp.last_match(2)] = Regexp.last_match(1) if line =~ / -> (\d+:\d+(@\d+))/
    line
  end
end

# Objects are named by the order in which they are allocated, so that addresses and places read the
# same.
def normalized(lines)
  names = {}
  count = 0
  lines.map do |line|
    call, allocated = line.chomp.split(' -> ')
    call = call.gsub(/\b(?:0x\h+|\d+:\d+@\d+|exception|text)\b/) do |object|
      names.fetch(object) { "?#{object}" }
    end
    if allocated
      names[allocated] = "##{count += 1}"
      "#{call} -> #{names[allocated]}"
    else
      call
    end
  end
end

# Only after `normalized`, as "*" stands for the size alone.
def same?(wanted, got)
  wanted.size == got.size && wanted.zip(got).all? do |one, other|
    /\A#{Regexp.escape(one).gsub('\*', '\d+')}\z/.match?(other)
  end
end

# What the program says: symbol => lines.
def expectations(lines)
  lines.slice_before(/\Asymbol /).to_h { |part| [part.first.split.last, part.drop(1)] }
end

# What was recorded between the marks, by number.
def between_marks(lines)
  parts = Hash.new { |hash, key| hash[key] = [] }
  current = nil
  mark = nil
  lines.each do |line|
    if line =~ /\Amalloc (\d+) -> (\d+:\d+@\d+)$/ &&
      (Regexp.last_match(1).to_i - ENTRY_MARK).between?(0, 999)
      current = Regexp.last_match(1).to_i - ENTRY_MARK
      mark = "free #{Regexp.last_match(2)}"
    elsif line.chomp == mark
      mark = nil
    elsif current
      parts[current] << line
    end
  end
  parts
end

def show(title, lines)
  lines.first(40).each { |line| puts "# #{title}: #{line}" }
end

def compare(symbol, wanted, recorded)
  wanted = normalized(wanted)
  recorded = normalized(recorded)
  good = wanted != ['unknown'] && same?(wanted, recorded)
  report good, "#{symbol}: #{wanted.size} events"
  return if good

  puts '# no expectation in tests/workloads/entry_points.cc' if wanted == ['unknown']
  first = wanted.zip(recorded).index { |one, other| !other || !same?([one], [other]) } ||
    wanted.size
  show('wanted', wanted.drop(first).first(3))
  show('recorded', recorded.drop(first).first(3))
end

symbols = entry_points | BESIDES
Dir.mktmpdir do |scratch|
  raw = File.join(scratch, 'raw.lz4')
  preload = [LIBRARY, NEXT_LIBRARY].compact.join(':')
  said = output_of({ 'LD_PRELOAD' => preload, 'TCMALLOC_TRACE_OUTPUT' => raw }, PROGRAM, *symbols)
  dumped = output_of({}, MALLOCTAPE, 'dump', '--only-calls', '--lane', '0', raw)
  recorded = between_marks(resolved(dumped.lines))
  plan symbols.size + 3
  said, counted = said.lines.partition { |line| line !~ /\A(asked|nulls) / }
  expectations(said).each_with_index do |(symbol, lines), index|
    compare(symbol, lines, recorded[index])
  end
  least = IS_TCMALLOC ? 90 : 40
  enough = symbols.include?('malloc') && symbols.include?('_ZdlPvm') && symbols.size > least
  report enough, "#{symbols.size} functions"
  asked, nulls = counted.map { |line| line.split.last.to_i }
  info = output_of({}, MALLOCTAPE, 'info', raw)
  report asked == info[/^ *malloc_usable_size +(\d+)$/, 1].to_i, 'how often sizes were asked for'
  # The C library does it, too.
  freed = info[/^frees of NULL +(\d+),/, 1].to_i
  report nulls.positive? && freed.between?(nulls, nulls + 20), "how often NULL was freed: #{nulls}"
end
