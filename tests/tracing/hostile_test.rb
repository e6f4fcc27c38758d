#!/usr/bin/env ruby
# hostile_test.rb - programs whose stacks lead anywhere (workloads/hostile.c), and whose unwind tables
# have been changed at random, end with all call stacks recorded as they end without, and what they
# have recorded is complete. Prints TAP.
#
# MALLOCTAPE_RUNS: how many of them under each library; default 15. MALLOCTAPE_SEED: of the first one.

require 'fileutils'
require 'tmpdir'

require_relative '../tap'

RUNS = Integer(ENV.fetch('MALLOCTAPE_RUNS', ENV['MALLOCTAPE_LONG'] ? 500 : 15))
SEED = Integer(ENV.fetch('MALLOCTAPE_SEED', 1))
PROGRAM = File.join(BUILD, 'tests/workloads/hostile')
POSTPROCESS = File.join(BUILD, 'bin/postprocess')
PLUG_INS = 3
STACKS = %w[all all,frees 4096].freeze
SECONDS = 300

def make_plug_ins
  File.write('plug_in.c', <<~C)
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
  (0...PLUG_INS).map do |number|
    space = "__asm__ volatile(\"#{'nop; ' * 7 * number}\");"
    output_of({}, *ENV.fetch('CC', 'cc').split, '-O2', '-fPIC', '-shared', "-DSPACE=#{space}",
              '-o', "plug_in#{number}", 'plug_in.c')
    "plug_in#{number}"
  end
end

# Where the sections of an ELF file are, by name.
def sections_of(bytes)
  at = bytes.unpack1('Q<', offset: 40)
  count, names = bytes.unpack('S<2', offset: 60)
  all = (0...count).map { |i| bytes.unpack('L<2Q<4', offset: at + 64 * i) }
  strings = all[names][4]
  all.to_h { |section| [bytes.unpack1('Z*', offset: strings + section[0]), section[4, 2]] }
end

# Changes some bytes of the tables, or a number of the index as a whole.
def spoil(file, random)
  bytes = File.binread(file)
  tables = sections_of(bytes).values_at('.eh_frame', '.eh_frame_hdr').compact
  random.rand(1..6).times do
    start, size = tables.sample(random: random)
    at = start + random.rand(size - 4)
    case random.rand(4)
    when 0 then bytes[at & ~3, 4] = [random.rand(2**32)].pack('L<')
    when 1 then bytes[tables[1][0] + 8, 4] = [random.rand(2**random.rand(33))].pack('L<')
    else bytes.setbyte(at, random.rand(256))
    end
  end
  File.binwrite(file, bytes)
end

def ends_with(environment, *command)
  settings = environment.map { |name, value| "#{name}=#{value}" }
  process = spawn('timeout', '-s', 'ABRT', SECONDS.to_s, 'env', *settings, *command, %i[out err] => 'out')
  Process.wait(process)
  $?
end

# What is wrong with this run; nil: nothing.
def failure_of(seed, library, plug_ins)
  random = Random.new(seed)
  FileUtils.cp([PROGRAM, *plug_ins.map { |plug_in| "../#{plug_in}" }], '.')
  files = [File.basename(PROGRAM), *plug_ins]
  files.each { |file| spoil(file, random) if random.rand(3).zero? }
  command = files.map { |file| "./#{file}" }.insert(1, seed.to_s)
  status = ends_with({ 'LD_PRELOAD' => library, 'TCMALLOC_TRACE_OUTPUT' => 'raw.lz4',
                       'TCMALLOC_TRACE_STACKS' => STACKS.sample(random: random) }, *command)
  return "#{status} (without: #{ends_with({}, *command)}): #{File.read('out')}" unless status.success?

  status = ends_with({}, POSTPROCESS, '-q', 'raw.lz4', 'p')
  "postprocess: #{status}: #{File.read('out')}" unless status.success?
end

plan 2
Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  plug_ins = make_plug_ins
  %w[libtcmalloc_minimal_tracing libmalloctape].each do |name|
    wrong = (SEED...SEED + RUNS).filter_map do |seed|
      FileUtils.rm_rf('run')
      Dir.mkdir('run')
      failure = Dir.chdir('run') { failure_of(seed, File.join(BUILD, 'lib', "#{name}.so"), plug_ins) }
      "seed #{seed}: #{failure}" if failure
    end
    report wrong.empty?, "#{name}: #{RUNS} hostile programs end as without recording", wrong.first(20)
  end
end
