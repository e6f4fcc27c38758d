#!/usr/bin/env ruby
# convert_round_trip_test.rb - recordings of programs with threads, written by `malloctape export`
# and read again by `malloctape import`: the same calls of the same threads on the same objects, and
# whoever had an object first has it first again.

require 'json'
require 'socket'
require 'open3'
require 'tmpdir'
require_relative '../tap'
require_relative 'program'
require_relative 'workload'

def run(*words)
  messages, status = Open3.capture2e(*words)
  raise "#{words.join(' ')}: #{messages}" unless status.success?
end

def malloctape(*words) = run("#{BUILD}/bin/malloctape", *words)

def dump(file)
  lines, status = Open3.capture2("#{BUILD}/bin/malloctape", 'dump', file)
  status.success? ? Dump.new(lines.lines) : raise("dump of #{file} failed")
end

# A .wl numbers threads by their first calls, which are then not the order of its own.
def calls_of(dump, numbered: false)
  numbers = Hash.new { |hash, thread| hash[thread] = numbered ? thread : hash.size + 1 }
  dump.calls.map { |call| [numbers[call[0]], *call[1..]] }
end

# What happens to each object, by thread and number of the call in its thread, in order.
def lives(calls)
  counts = Hash.new(0)
  calls.each_with_object(Hash.new { |hash, object| hash[object] = [] }) do |call, lives|
    lives[call[2]] << [call[0], counts[call[0]] += 1, call[1], call[3], call[4]]
  end
end

def differences(original, again, exact:)
  one = calls_of(original)
  other = calls_of(again, numbered: !exact)
  notes = []
  notes << "#{one.size} calls became #{other.size}" if one.size != other.size
  notes << 'calls or their order differ' if exact && one != other
  notes << 'other reallocs moved' if exact && original.moved != again.moved
  notes << 'objects differ, or who had them' if lives(one).values.sort != lives(other).values.sort
  limit = one.map(&:first).uniq.size > 1 && !exact ? original.peak_bytes / 100 : 0
  if (original.peak_bytes - again.peak_bytes).abs > limit
    notes << "a peak of #{original.peak_bytes} bytes became #{again.peak_bytes}"
  end
  notes
end

def round_trip(name, raw)
  original = dump_of_raw(raw)
  { 'memory_replay' => true, 'wl' => false }.each do |format, exact|
    malloctape('export', '--quiet', '--to', format, raw, '-o', 'exported')
    malloctape('import', '--quiet', 'exported', '-o', 'again')
    malloctape('verify', 'again')
    notes = differences(original, dump('again'), exact: exact)
    report notes.empty?, "#{name}: #{original.calls.size} calls through #{format}", notes
  rescue RuntimeError => e
    report false, "#{name} through #{format}", [e.message]
  end
end

# The .wl of a recording, with threads at any speed.
def any_speed(name, raw)
  peak = dump_of_raw(raw).peak_bytes
  malloctape('export', '--quiet', '--to', 'wl', raw, '-o', 'exported')
  workload = Workload.new(File.binread('exported'))
  peaks = (1..size(6, 100)).map { |seed| workload.run(Random.new(seed)) }
  far = peaks.reject { |other| (other - peak).abs <= peak / 100 }
  report far.empty?, "#{name}: a .wl keeps its peak at any speed of the threads",
         far.map { |other| "a peak of #{peak} bytes became #{other}" }
rescue RuntimeError => e
  report false, "#{name}: a .wl keeps its peak at any speed of the threads", [e.message]
end

def dump_of_raw(raw)
  run("#{BUILD}/bin/postprocess", '--quiet', raw, 'ordered')
  dump('ordered')
end

def workload(name, *words)
  malloctape('record', '-o', "#{name}.raw.lz4", '--', "#{BUILD}/tests/workloads/#{name}", *words)
  round_trip(name, "#{name}.raw.lz4")
end

def wait_for_server
  1200.times do
    return UNIXSocket.new('socket').close
  rescue SystemCallError
    sleep(0.05)
  end
  raise 'redis-server does not begin'
end

def redis
  environment = { 'TCMALLOC_TRACE_OUTPUT' => 'redis.raw.lz4',
                  'LD_PRELOAD' => "#{BUILD}/lib/libtcmalloc_minimal_tracing.so" }
  server = spawn(environment, 'redis-server', '--port', '0', '--unixsocket', "#{Dir.pwd}/socket",
                 '--save', '', '--io-threads', '3', '--io-threads-do-reads', 'yes', out: 'log',
                 err: 'log')
  wait_for_server
  run('redis-benchmark', '-s', 'socket', '-q', '-t', 'set,lpush,hset,zadd', '-n',
      size(300, 20_000).to_s)
  system('redis-cli', '-s', 'socket', 'shutdown', 'nosave', out: 'log', err: 'log')
  Process.wait(server)
  round_trip('redis-server', 'redis.raw.lz4')
end

def installed?(program) = system("command -v #{program} >#{File::NULL}")

plan 10

Dir.mktmpdir do |directory|
  Dir.chdir(directory) do
    workload('threads', '50')
    workload('handoff', '3', '2000', 'log')
    any_speed('threads', 'threads.raw.lz4')
    any_speed('handoff', 'handoff.raw.lz4')
    workload('churn', '1', '200', '5000')
    if installed?('redis-server') && installed?('redis-benchmark')
      redis
    else
      2.times { |i| puts "ok #{9 + i} # SKIP redis-server: not installed" }
    end
  end
end
