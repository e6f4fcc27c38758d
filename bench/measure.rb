# frozen_string_literal: true

# measure - runs one workload under each allocator in turn, and takes the times.
#
#     round 1: plain off on    round 2: plain off on    ...
#
# What is compared is always of one round, so that a machine that gets slower or faster in the meantime changes all
# three. Wall time is what a user waits: from the start of the process to its end, the closing of the recording
# included. CPU time is the kernel's account of the ended process with all its threads, the recorder's writer
# among them (getrusage(2) of children; there is one such child at a time).

require 'json'

# Something that cannot be measured; the text is for the user.
class BenchError < StandardError; end

# The three ways to run a program. `trace` is where the third records to.
class Modes
  NAMES = %i[plain off on].freeze

  attr_reader :plain_library, :tracing_library

  def initialize(build_dir)
    @plain_library = library(build_dir, 'libtcmalloc_minimal.so')
    @tracing_library = library(build_dir, 'libtcmalloc_minimal_tracing.so')
  end

  # The environment of a program in this mode; nil removes a variable.
  def environment(mode, trace)
    { 'LD_PRELOAD' => mode == :plain ? plain_library : tracing_library,
      'TCMALLOC_TRACE_OUTPUT' => mode == :on ? trace : nil }
  end

  private

  def library(build_dir, name)
    path = File.join(build_dir, 'lib', name)
    raise BenchError, "#{path} is not there: run make" unless File.exist?(path)
    raise BenchError, "#{path}: LD_PRELOAD takes no path with a blank or a colon" if path.match?(/[\s:]/)

    path
  end
end

# Child processes, started and accounted for.
module Child
  # No program inherits a recording from the one that started bench/run.
  CLEAN = { 'LD_PRELOAD' => nil, 'TCMALLOC_TRACE_OUTPUT' => nil, 'TCMALLOC_TRACE_QUIET' => nil }.freeze
  OUTPUT_SHOWN_BYTES = 2000

  Times = Struct.new(:wall, :cpu)

  module_function

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # CPU seconds of all children that have been waited for.
  def cpu_of_ended
    times = Process.times
    times.cutime + times.cstime
  end

  # Starts a program; what it prints goes to the file `log`. Returns its process number.
  def start(environment, command, log, input = File::NULL)
    Process.spawn(CLEAN.merge(environment), *command, in: input, %i[out err] => [log, 'w'])
  rescue SystemCallError => e
    raise BenchError, "#{command.first}: #{e.message}"
  end

  # Waits for a program that start() started, and returns the CPU seconds it took. Raises if it failed.
  def finish(pid, command, log)
    before = cpu_of_ended
    _, status = Process.wait2(pid)
    cpu = cpu_of_ended - before
    how = status.to_s.sub(/\Apid \d+ /, '') unless status.success?
    how ||= 'ran without the library' if File.binread(log, OUTPUT_SHOWN_BYTES).to_s.include?('cannot be preloaded')
    raise BenchError, "#{command.join(' ')}: #{how}\n#{tail(log)}" if how

    cpu
  end

  # From start to end; the wall and CPU seconds.
  def run(environment, command, log, input = File::NULL)
    began = now
    cpu = finish(start(environment, command, log, input), command, log)
    Times.new(now - began, cpu)
  end

  def tail(log) = File.binread(log).byteslice(-OUTPUT_SHOWN_BYTES..) || File.binread(log)
end

# What a recording says about itself.
class Recording
  attr_reader :info

  def initialize(malloctape, trace, work_dir)
    json = File.join(work_dir, 'info.json')
    Child.run({}, [malloctape, 'info', '--json', json, trace], File.join(work_dir, 'info.log'))
    @info = JSON.parse(File.read(json))
    raise BenchError, "#{trace}: #{info['lost_events']} events were lost" unless info['lost_events'].zero?
    raise BenchError, "#{trace}: the recording ends with \"#{info['end']}\"" unless info['end'] == 'complete'
  end

  def events = info.fetch('events')
  def bytes_per_event = info.fetch('file_bytes').fdiv(events)
end

# All runs of one workload.
class Measurement
  ROUNDS_MIN = 5
  ROUNDS_MAX = 25
  PLAIN_SECONDS = 3.0 # what all plain runs of a short program should come to

  attr_reader :workload, :times, :recordings

  def initialize(workload, modes, malloctape, work_dir, trace)
    @workload = workload
    @modes = modes
    @malloctape = malloctape
    @work_dir = work_dir
    @trace = trace
    @times = Modes::NAMES.to_h { |mode| [mode, []] }
    @recordings = []
  end

  # One run is not counted: it brings the program and its input into memory, and says how long one takes. Without
  # `rounds`, there are at least five, and more of a short program.
  def take(rounds)
    first = run(:plain)
    rounds ||= rounds_by_default(first.wall)
    rounds.times do |round|
      yield round + 1, rounds if block_given?
      Modes::NAMES.each { |mode| times[mode] << run(mode) }
      recordings << Recording.new(@malloctape, @trace, @work_dir)
    end
    self
  end

  # The ratios of a mode to plain, round by round; `what` is :wall or :cpu.
  def ratios(mode, what) = times[mode].zip(times[:plain]).map { |ours, plain| ours[what] / plain[what] }

  def bytes_per_event = recordings.map(&:bytes_per_event)

  private

  def rounds_by_default(seconds) = (PLAIN_SECONDS / seconds).ceil.clamp(ROUNDS_MIN, ROUNDS_MAX)

  def run(mode)
    File.delete(@trace) if mode == :on && File.exist?(@trace)
    workload.run(@modes.environment(mode, @trace))
  end
end
