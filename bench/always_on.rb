#!/usr/bin/env ruby
# always_on.rb - what keeping costs: redis-server under load, recorded to a file and with a keeper, in
# turns; and the memory and disk of a long run.
#
#   always_on.rb [ROUNDS [REQUESTS [AT_ONCE]]]
#                                         throughput, and processor time of each process; the requests
#                                         of each kind, and how many each client sends at once
#   always_on.rb curve SECONDS            a line each 10 s: RSS of all, disk, rate, processor time
require 'tmpdir'

BUILD = ENV.fetch('MALLOCTAPE_BUILD') { File.expand_path('../build', __dir__) }
MALLOCTAPE = File.join(BUILD, 'bin/malloctape')
PORT = (ENV['PORT'] || 17_791).to_s
SERVER = ['redis-server', '--port', PORT, '--save', '', '--appendonly', 'no'].freeze
KEEP = ENV['KEEP'] || '10s'
MODES = {
  'alone' => [],
  'file' => [MALLOCTAPE, 'record', '-q', '-o', 'r.raw.lz4', '--'],
  'kept' => [MALLOCTAPE, 'record', '-q', '--keep', KEEP, '-o', 'r.kept.lz4', '--']
}.freeze
TICKS = 100.0

def children(process)
  Dir["/proc/#{process}/task/*/children"].flat_map { |file| File.read(file).split.map(&:to_i) }
rescue SystemCallError
  []
end

def tree(process) = [process] + children(process).flat_map { |child| tree(child) }

def name_of(process) = File.read("/proc/#{process}/comm").strip

def cpu_s(process)
  fields = File.read("/proc/#{process}/stat").rpartition(') ').last.split
  (fields[11].to_i + fields[12].to_i) / TICKS
end

def rss_mib(process) = File.read("/proc/#{process}/statm").split[1].to_i * 4096 / 1048576.0

# Processor time by name; the keeper and its postprocess together.
def times(process)
  tree(process).each_with_object(Hash.new(0)) do |one, all|
    name = name_of(one)
    all[name.start_with?('redis') ? 'redis' : name == 'malloctape' ? 'record' : 'keeper'] += cpu_s(one)
  end
end

def ready? = system('redis-cli', '-p', PORT, 'ping', out: File::NULL, err: File::NULL)

def start(mode)
  process = spawn(*MODES.fetch(mode), *SERVER, out: File::NULL, err: 'err')
  sleep 0.05 until ready?
  process
end

def load(requests, at_once)
  text = IO.popen(['redis-benchmark', '-p', PORT, '-n', requests.to_s, '-r', '100000', '-d', '100',
                   '-P', at_once.to_s, '-t', 'set,lpush,sadd', '--csv'], &:read)
  text.scan(/^"[A-Z]+[^"]*","([\d.]+)"/).map { |rate| rate[0].to_f }.sum / 3
end

def stop(process)
  system('redis-cli', '-p', PORT, 'shutdown', 'nosave', out: File::NULL, err: File::NULL)
  Process.wait(process)
end

def once(mode, requests, at_once)
  process = start(mode)
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  rate = load(requests, at_once)
  sleep 0.5
  wall = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
  all = times(process)
  stop(process)
  { rate: rate, redis: all['redis'], keeper: all['keeper'], share: all['keeper'] / wall }
end

def median(values) = values.sort[values.size / 2]

def compare(rounds, requests, at_once)
  results = Hash.new { |all, mode| all[mode] = [] }
  rounds.times { MODES.each_key { |mode| results[mode] << once(mode, requests, at_once) } }
  puts format('%-6s %12s %10s %10s %14s', '', 'requests/s', 'redis CPU', 'keeper', 'of one core')
  results.each do |mode, runs|
    rate, redis, keeper, share = %i[rate redis keeper share].map { |key| median(runs.map { |run| run[key] }) }
    puts format('%-6s %12.0f %8.2f s %8.2f s %12.1f %%', mode, rate, redis, keeper, 100 * share)
  end
end

def disk_mib = Dir['r.kept.lz4.keep/*.{lz4,join}'].sum { |file| File.size?(file).to_i } / 1048576.0

def curve(seconds)
  process = start('kept')
  loader = Thread.new { load(200_000, 8) while process }
  (seconds / 10).times do |i|
    sleep 10
    parts = tree(process).group_by { |one| name_of(one) }.transform_values { |all| all.sum { |one| rss_mib(one) } }
    puts format('%5d s  disk %7.1f MiB  RSS %s  keeper %.2f s', 10 * (i + 1), disk_mib,
                parts.map { |name, rss| format('%s %.1f', name, rss) }.join(', '), times(process)['keeper'])
    $stdout.flush
  end
  loader.kill
  stop(process)
  system(MALLOCTAPE, 'verify', 'r.kept.lz4')
end

Dir.mktmpdir do |directory|
  ENV['TMPDIR'] = directory
  Dir.chdir(directory) do
    if ARGV[0] == 'curve'
      curve(Integer(ARGV[1]))
    else
      compare(Integer(ARGV[0] || 5), Integer(ARGV[1] || 200_000), Integer(ARGV[2] || 1))
    end
  end
end
