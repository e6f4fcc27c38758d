#!/usr/bin/env ruby
# kill_test.rb - SIGKILL at a random moment: every call that had returned is in the recording, which
# orders and replays; and every second time, its call stack, from the first function to the last.
#
# The program (life count) counts its calls in memory that it shares with a file: those begun, and
# those that have returned. MALLOCTAPE_KILLS says how often it is killed, MALLOCTAPE_SEED when.
require 'tmpdir'

require_relative '../tap'

LIFE = File.join(BUILD, 'tests/workloads/life')
LIBRARIES = { 'tcmalloc' => 'lib/libtcmalloc_minimal_tracing.so', 'program' => 'lib/libmalloctape.so' }.freeze
LIBRARY = File.join(BUILD, LIBRARIES.fetch(ENV.fetch('MALLOCTAPE_FRONT_END', 'tcmalloc')))
RUNS = Integer(ENV['MALLOCTAPE_KILLS'] || size(4, 200))
SEED = Integer(ENV.fetch('MALLOCTAPE_SEED') { Random.new_seed % 1_000_000 })
THREADS = 2
# The longest life, in seconds: a few hundred slots.
LIFE_MAX = 0.04
# What the main thread does before it begins to count.
PAST_MAX = 60
CUT_SHORT = 3
$random = Random.new(SEED)
# What a recording leaves alive is no leak of the replayer.
ENV['ASAN_OPTIONS'] ||= 'detect_leaks=0'

def bin(name) = File.join(BUILD, 'bin', name)

Failure = Class.new(StandardError)

def run(*command, out: File::NULL)
  system(*command, out: out, err: 'err')
  $?.exitstatus
end

# Of each thread: its id, calls begun, calls done.
def counts
  File.exist?('counts') ? File.binread('counts').unpack('Q<*').each_slice(3).to_a : []
end

def live_and_be_killed(stacks)
  process = spawn({ 'TCMALLOC_TRACE_OUTPUT' => 'raw.lz4', 'LD_PRELOAD' => LIBRARY,
                    'TCMALLOC_TRACE_STACKS' => stacks }, LIFE, 'count', 'counts', THREADS.to_s,
                  err: 'err')
  sleep 0.001 until counts.any? { |_, begun, _| begun.to_i.positive? }
  sleep $random.rand(LIFE_MAX)
  Process.kill(:KILL, process)
  Process.wait(process)
end

# Calls of malloc and free, by thread id.
def recorded_calls
  lanes = Hash.new(0)
  threads = {}
  counting = %q({ at = $1 == "spool" ? 2 : 1; kind = $(at + 3)
                  if (kind == "malloc" || kind == "free") calls[$(at + 1)]++
                  if (kind == "thread_begin") print "thread", $(at + 4), $(at + 1) }
                END { for (lane in calls) print "calls", lane, calls[lane] })
  status = run('sh', '-c', %q("$1" dump raw.lz4 >dump), 'sh', bin('malloctape'))
  raise Failure, "dump ends with status #{status}" unless status == CUT_SHORT

  IO.popen(['awk', counting, 'dump']).each_line do |line|
    what, key, value = line.split
    what == 'thread' ? threads[key.to_i] = value : lanes[key] += value.to_i
  end
  threads.transform_values { |lane| lanes[lane] }
end

def check_calls
  recorded = recorded_calls
  counts.each_with_index do |(thread, begun, done), index|
    next if done.to_i.zero? # maybe not even the record of its beginning is there

    got = recorded.fetch(thread) { raise Failure, "thread #{index} is missing" }
    most = index.zero? ? begun + PAST_MAX : begun
    next if got.between?(done, most)

    raise Failure, "thread #{index}: #{done} calls done, #{begun} begun, #{got} recorded"
  end
  counts.sum { |_, _, done| done.to_i }
end

# The allocations of `dump`, the last number of each line with stacks being a node.
def check_stacks
  parents = {}
  stacks = []
  File.foreach('dump') do |line|
    case line
    when /define nodes (\d+) parent (\d+) codes (.*)/
      $3.split.size.times { |at| parents[$1.to_i + at] = at.zero? ? $2.to_i : $1.to_i + at - 1 }
    when / malloc \d/ then stacks << line[/ stack (\d+)$/, 1]
    end
  end
  none = stacks.count(nil)
  raise Failure, "#{none} of #{stacks.size} allocations have no stack" if none.positive? || stacks.empty?

  stacks.uniq.each do |node|
    at = node.to_i
    at = parents.fetch(at) { raise Failure, "node #{at} is not defined" } while at > 7
    raise Failure, "the stack of node #{node} is cut" unless at.zero?
  end
end

def check_replay
  status = run(bin('postprocess'), '--quiet', 'raw.lz4', 'p')
  raise Failure, "postprocess ends with status #{status}" unless status == CUT_SHORT

  status = run(bin('replay'), 'p')
  raise Failure, "replay ends with status #{status}" unless status.zero? || status == CUT_SHORT

  status = run(bin('malloctape'), 'verify', 'raw.lz4', 'p')
  raise Failure, "verify ends with status #{status}" unless status == CUT_SHORT
end

def one_life(number)
  stacks = number.odd? ? 'all' : '0'
  Dir.glob('{raw.lz4*,counts,p,dump}').each { |name| File.delete(name) }
  live_and_be_killed(stacks)
  calls = check_calls
  check_stacks if stacks == 'all'
  check_replay
  calls
end

plan 1
text = "SIGKILL, #{RUNS} times: no call that had returned is missing, nor its stack"
puts "# seed #{SEED}"
Dir.mktmpdir do |scratch|
  Dir.chdir(scratch) do
    calls = Array.new(RUNS) { |number| one_life(number) }
    puts "# #{RUNS} times, after #{calls.min} to #{calls.max} calls"
    report true, text
  rescue Failure => e
    report false, text, [e.message, File.read('err')]
  end
end
