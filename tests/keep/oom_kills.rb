#!/usr/bin/env ruby
# oom_kills.rb - a recorded program that the kernel kills for its memory, in a memory cgroup: what is
# kept is complete to its last call. For root, on the machine itself.
#
#   MALLOCTAPE_KILLS=50 oom_kills.rb
require 'fileutils'
require 'tmpdir'

require_relative 'kept_trace'

RUNS = Integer(ENV['MALLOCTAPE_KILLS'] || 50)
THREADS = 2
LEAK = 8
LIMIT = 200 << 20
ROOTS = { '/sys/fs/cgroup/memory' => 'memory.limit_in_bytes', '/sys/fs/cgroup' => 'memory.max' }.freeze
ROOT, LIMITS = ROOTS.find { |root, _| File.exist?("#{root}/cgroup.procs") }
GROUP = "#{ROOT}/malloctape-#{$$}"

def group_make
  Dir.mkdir(GROUP)
  File.write("#{GROUP}/#{LIMITS}", LIMIT.to_s)
  true
rescue SystemCallError
  false
end

unless ROOT && group_make
  puts '1..0 # SKIP there is no memory cgroup to be had'
  exit
end

# The program, once it runs.
def program_of(recorder)
  loop do
    child = File.read("/proc/#{recorder}/task/#{recorder}/children").split.find do |one|
      File.readlink("/proc/#{one}/exe") == NUMBERED
    end
    return child if child

    sleep 0.005
  end
end

def kill_once
  FileUtils.rm_f('n.kept.lz4')
  pause = rand(200..3000).to_s
  recorder = spawn(bin('malloctape'), 'record', '--keep', '0.5', '-o', 'n.kept.lz4', '--', NUMBERED, 'counts',
                   THREADS.to_s, '1000000000', pause, LEAK.to_s, err: 'err')
  File.write("#{GROUP}/cgroup.procs", program_of(recorder).to_s)
  Process.wait(recorder)
  raise Failure, "status #{$?.exitstatus}: #{File.read('err')}" unless $?.exitstatus == 137

  KeptTrace.new('n.kept.lz4', THREADS).check(counts('counts'), LEAK)
end

plan 1
failures = []
Dir.mktmpdir do |directory|
  ENV['TMPDIR'] = directory
  Dir.chdir(directory) do
    RUNS.times do |run|
      kill_once
    rescue Failure => e
      failures << "#{run}: #{e.message}"
    end
  end
end
Dir.rmdir(GROUP)
report failures.empty?, "killed for its memory, #{RUNS} times: complete to its last call", failures
