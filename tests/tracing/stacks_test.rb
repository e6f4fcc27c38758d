#!/usr/bin/env ruby
# stacks_test.rb - call stacks in recordings are those that the program has written down itself:
# recursion, inlining, templates, frames without frame pointer, alloca, signal handlers, coroutines,
# threads, code without tables, plug-ins that are loaded one in the other's place. Prints TAP.

require 'tmpdir'

require_relative '../tap'

FRONT_END = ENV['MALLOCTAPE_FRONT_END'] == 'program' ? 'libmalloctape' : 'libtcmalloc_minimal_tracing'
LIBRARY = File.join(BUILD, 'lib', "#{FRONT_END}.so")
PROGRAM = File.join(BUILD, 'tests/workloads/stacks')
MALLOCTAPE = File.join(BUILD, 'bin/malloctape')
DEPTH_MAX = 128
ROUNDS = 40 # of loading a plug-in
BY_PLUG_IN = 5 * ROUNDS
ENDS = { 0 => 'whole', 1 => 'deep', 2 => 'code' }.freeze

def record(name, stacks, *words)
  output_of({ 'LD_PRELOAD' => LIBRARY, 'TCMALLOC_TRACE_OUTPUT' => name,
              'TCMALLOC_TRACE_QUIET' => '1', 'TCMALLOC_TRACE_STACKS' => stacks }, PROGRAM, *words)
end

# The stacks of a recording, by what `dump` prints.
class Recording
  attr_reader :stacks, :modules, :allocations

  def initialize(name)
    @modules = Hash.new { |all, number| all[number] = { path: +'', bias: 0 } }
    @codes = {}
    @parents = {}
    @stacks = Hash.new { |all, size| all[size] = [] } # nodes, by size
    @allocations = 0
    output_of({}, MALLOCTAPE, 'dump', name).each_line { |line| read(line) }
  end

  def read(line)
    case line
    when / segment / then nil
    when /define module (\d+) from 0x(\h+) to 0x(\h+) bias 0x(\h+)/
      @modules[$1.to_i].merge!(start: $2.hex, end: $3.hex, bias: $4.hex)
    when /define module (\d+) unloaded/ then @modules[$1.to_i][:unloaded] = true
    when /define text of module (\d+) path \d+ from \d+ (\h+)/
      @modules[$1.to_i][:path] << [$2].pack('H*')
    when /define text of module (\d+) build_id \d+ from \d+ (\h+)/ then @modules[$1.to_i][:id] = $2
    when /define codes (\d+) module (\d+)(.*)/ then read_codes($1.to_i, $2.to_i, $3.split)
    when /define nodes (\d+) parent (\d+) codes (.*)/ then read_nodes($1.to_i, $2.to_i, $3.split)
    when / (?:malloc|calloc|new|realloc\w*|posix_memalign)\b(.*)/ then read_call($1)
    end
  end

  def read_codes(first, of, offsets)
    offsets.each_with_index { |offset, at| @codes[first + at] = [of, offset.hex] }
  end

  def read_nodes(first, parent, codes)
    codes.each_with_index do |code, at|
      @parents[first + at] = [at.zero? ? parent : first + at - 1, code.to_i]
    end
  end

  def read_call(rest)
    @allocations += 1
    size = rest[/ (\d+)(?: \d+)? (?:->|stack)/, 1]
    stack = rest[/ stack (\d+)$/, 1]
    (stack ? @stacks[size.to_i] : @stacks[:none]) << stack.to_i
  end

  # Module and offset of each frame, the innermost first, and how the stack ends.
  def frames(node)
    found = []
    while node > 7
      node, code = @parents.fetch(node)
      found << @codes.fetch(code)
    end
    [found, ENDS[node]]
  end

  def addresses(node)
    found, ends = frames(node)
    [found.map { |of, offset| of.zero? ? offset : @modules[of][:bias] + offset }, ends]
  end
end

# Both go on in the same function, but not at the same place there.
NEAR = 400

# NULL, or what is wrong.
def difference(told, ends, wanted, wanted_end)
  wanted = wanted.first(DEPTH_MAX)
  return "ends: #{ends}, not #{wanted_end}" if ends != wanted_end
  return "#{told.size} frames, not #{wanted.size}" if told.size != wanted.size
  return 'in another function' if (told[0] - wanted[0]).abs > NEAR

  wrong = (1...told.size).find { |at| told[at] != wanted[at] }
  format('frame %d: %x, not %x', wrong, told[wrong], wanted[wrong]) if wrong
end

def wanted_end(frames, cut)
  return 'deep' if frames.size > DEPTH_MAX

  frames.include?(cut) ? 'code' : 'whole'
end

# Lines of the program: size => addresses.
def answers_of(text) = text.lines.to_h { |line| line.split.then { |size, *at| [size.to_i, at.map(&:hex)] } }

# The frame in without_table() is the last one of the shortest stacks.
def cut_of(answers) = answers.values.min_by(&:size).last

def compare_all(answers, recording, sizes)
  cut = cut_of(answers)
  sizes.filter_map do |size|
    wanted = answers.fetch(size)
    node = recording.stacks[size].first
    next "#{size}: no stack" unless node

    wrong = difference(*recording.addresses(node), wanted, wanted_end(wanted, cut))
    "#{size}: #{wrong}" if wrong
  end
end

def make_plug_ins
  File.write('plug_in.c', <<~C)
    const char *name = NAME;
    __attribute__((noinline)) static void inner(void (*take)(void))
    {
        take();
        __asm__ volatile("" ::: "memory");
    }
    void plug_in(void (*take)(void))
    {
        SPACE inner(take);
        __asm__ volatile("" ::: "memory");
    }
  C
  { 'a' => '', 'b' => '__asm__ volatile("nop; nop; nop; nop; nop; nop; nop");' }.map do |name, space|
    output_of({}, ENV.fetch('CC', 'cc').split.first, '-O2', '-fPIC', '-shared', "-DNAME=\"#{name}\"",
              "-DSPACE=#{space}", '-Wl,--build-id', '-o', "#{name}.so", 'plug_in.c')
    File.join(Dir.pwd, "#{name}.so")
  end
end

def build_id(path)
  output_of({}, 'readelf', '-n', path)[/Build ID: (\h+)/, 1]
end

plan 8
Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  plug_ins = make_plug_ins
  answers = answers_of(record('all.lz4', 'all', *plug_ins))
  recording = Recording.new('all.lz4')
  by_plug_in = answers.keys.last(BY_PLUG_IN)
  wrong = compare_all(answers, recording, answers.keys - by_plug_in)
  report wrong.empty?, "#{answers.size - BY_PLUG_IN} stacks are those that the program wrote down", wrong.first(10)
  wrong = compare_all(answers, recording, by_plug_in)
  report wrong.empty?, 'so are those of plug-ins in the same place', wrong.first(10)

  # The frame behind take() and inner() is that of plug_in().
  wrong = by_plug_in.each_with_index.filter_map do |size, at|
    of = recording.frames(recording.stacks[size].first)[0][1][0]
    path = recording.modules[of][:path]
    "#{size}: #{path}" if path != plug_ins[at / 5 % 2]
  end
  report wrong.empty?, 'and each names the plug-in that it is of', wrong.first(10)
  unloaded = recording.modules.values.select { |of| plug_ins.include?(of[:path]) }
  report unloaded.size == ROUNDS && unloaded.all? { |of| of[:unloaded] }, 'every unloading is noted',
         ["#{unloaded.size} unloaded"]

  wrong = recording.modules.values.reject { |of| of[:path] == '[vdso]' }
                   .reject { |of| of[:id] == build_id(of[:path]) }
  report wrong.empty?, 'modules have the build id of their file', wrong.map(&:to_s)
  none = recording.stacks[:none].size
  report none.zero?, 'every allocation has a stack', ["#{none} of #{recording.allocations} have none"]

  answers = answers_of(record('some.lz4', '1024', *plug_ins))
  recording = Recording.new('some.lz4')
  sizes = answers.keys.select { |size| recording.stacks.key?(size) }
  wrong = compare_all(answers, recording, sizes)
  report wrong.empty? && sizes.size > 100, 'sampled stacks are those of their calls',
         wrong.first(10) + ["#{sizes.size} of #{answers.size}"]
  record('none.lz4', '0')
  report Recording.new('none.lz4').modules.empty?, 'nothing of it is there if nobody asks'
end
