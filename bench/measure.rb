# frozen_string_literal: true

# measure - runs one workload under each allocator, in turns, and takes the times.
#
#     round 1: plain 0.1 s, off 0.1 s, on 0.1 s, off 0.1 s, on 0.1 s, plain 0.1 s, ...
#              until all three have ended
#     round 2: plain, on, off, on, off, plain, ... and so on: six orders,
#              so that each comes behind each other as often
#
# The three runs of a round take turns: one runs, with all its threads, while the other two are
# stopped (SIGSTOP). So when the machine becomes slower or faster for some seconds, as one shared
# with others does, it does so for all three, and in the same part of their work; that would not be
# true of whole long runs, one after the other.
#
# Wall time is what a user waits: from the start of the process to its end, the closing of the
# recording included, minus the time in which it was stopped. CPU time is the kernel's figure for
# the ended process with all its threads, the recorder's writer included (getrusage(2) of children;
# no other child ends while it runs).

require 'fileutils'
require 'json'

# Something that cannot be measured; the text is for the user.
class BenchError < StandardError; end

# The ways to run a program: under an allocator, with the recorder switched off, and recording. For
# the cost of call stacks: under an allocator, recording without stacks, with sampled stacks, with
# all, and under heaptrack.
class Modes
  HEAPTRACK = '/usr/bin/heaptrack'
  STACKS = { on: nil, sampled: '1', all: 'all' }.freeze

  attr_reader :names

  # `over` is the allocator behind libmalloctape.so: 'glibc' or a library's path; nil for our
  # tcmalloc and its tracing library.
  def initialize(build_dir, over, stacks)
    libraries = File.join(build_dir, 'lib')
    @plain = existing(over ? allocator(over) : File.join(libraries, 'libtcmalloc_minimal.so'))
    @tracing =
      if over
        "#{existing(File.join(libraries, 'libmalloctape.so'))} #{@plain}"
      else
        existing(File.join(libraries, 'libtcmalloc_minimal_tracing.so'))
      end
    @names = stacks ? %i[plain on sampled all] : %i[plain off on]
    @names << :heaptrack if stacks && File.exist?(HEAPTRACK)
  end

  # Those that make recordings.
  def recording = names & STACKS.keys

  # The environment of a program in this mode, which records to `trace`; nil removes a variable.
  def environment(mode, trace)
    { 'LD_PRELOAD' => library(mode),
      'TCMALLOC_TRACE_OUTPUT' => STACKS.key?(mode) ? trace : nil,
      'TCMALLOC_TRACE_STACKS' => STACKS[mode] }
  end

  # The words before the program's command.
  def command(mode, trace) = mode == :heaptrack ? [HEAPTRACK, '-o', trace] : []

  private

  def library(mode)
    { plain: @plain, heaptrack: @plain }.fetch(mode, @tracing)
  end

  # glibc is preloaded, too: a program may be linked to another allocator.
  def allocator(over)
    return File.expand_path(over) unless over == 'glibc'

    File.read('/proc/self/maps')[%r{/\S*/libc\.so\.6$}] ||
      raise(BenchError, 'glibc is not what runs here')
  end

  def existing(path)
    raise BenchError, "#{path} is not there" unless File.exist?(path)
    raise BenchError, "#{path}: LD_PRELOAD takes no path with a blank or a colon" if
      path.match?(/[\s:]/)

    path
  end
end

# Child processes, started and accounted for.
module Child
  # No program inherits a recording from the one that started bench/run.
  CLEAN = { 'LD_PRELOAD' => nil, 'TCMALLOC_TRACE_OUTPUT' => nil, 'TCMALLOC_TRACE_QUIET' => nil,
            'TCMALLOC_TRACE_STACKS' => nil }.freeze
  OUTPUT_SHOWN_BYTES = 2000

  # Seconds, and the peak of memory if that was asked for.
  Times = Struct.new(:wall, :cpu, :rss)

  module_function

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # CPU seconds of all children that have been waited for.
  def cpu_of_ended
    times = Process.times
    times.cutime + times.cstime
  end

  # Starts a program in process group `group` (0: a new one); what it prints goes to the file `log`.
  # Returns its process id, or, with a :usage in the environment, that of this command, which starts
  # the program, after the words of :under.
  def start(environment, command, log, input: File::NULL, group: 0)
    environment = environment.dup
    usage = environment.delete(:usage)
    under = environment.delete(:under)
    if usage
      pairs = environment.compact.map { |name, value| "#{name}=#{value}" }
      command = [*usage, '/usr/bin/env', *pairs, *under, *command]
      environment = {}
    end
    Process.spawn(CLEAN.merge(environment), *command, in: input, %i[out err] => [log, 'w'],
                  pgroup: group)
  rescue SystemCallError => e
    raise BenchError, "#{command.first}: #{e.message}"
  end

  # Raises if the program that ended with `status` failed.
  def check(status, command, log)
    how = status.to_s.sub(/\Apid \d+ /, '') unless status.success?
    how ||= 'ran without the library' if
      File.binread(log, OUTPUT_SHOWN_BYTES).to_s.include?('cannot be preloaded')
    raise BenchError, "#{command.join(' ')}: #{how}\n#{tail(log)}" if how
  end

  # Runs a program from start to end, without measuring time.
  def run(command, log, environment = {})
    pid = start(environment, command, log)
    check(Process.wait2(pid).last, command, log)
  end

  # A signal to all of a process group, which may be gone.
  def signal(name, group)
    Process.kill(name, -group)
  rescue Errno::ESRCH
    nil
  end

  # Ends a process group, and waits for this process of it, if it has not been waited for.
  def kill(group, pid)
    signal('KILL', group)
    Process.wait(pid)
  rescue Errno::ECHILD
    nil
  end

  def tail(log) = File.binread(log).byteslice(-OUTPUT_SHOWN_BYTES..) || File.binread(log)
end

# One run of a program, which runs when it is its turn and is stopped otherwise, with everything
# else in its process group.
class Run
  STOPS_WITHIN_S = 1
  GOES_ON_S = 0.01

  attr_reader :times

  def initialize(environment, command, log, input: File::NULL, group: 0)
    @environment = environment
    @command = command
    @log = log
    @input = input
    @group = group
    @times = Child::Times.new(0.0, 0.0)
  end

  # Lets it run for that long (nil: no limit), or to its end; returns whether it has ended. Raises
  # if it failed.
  def turn(seconds)
    began = Child.now
    cpu_before = Child.cpu_of_ended
    go_on
    status = wait(seconds)
    times.wall += Child.now - began
    return false if status.stopped?

    times.cpu = Child.cpu_of_ended - cpu_before
    Child.check(status, @command, @log)
    true
  end

  # After a failure.
  def kill
    Child.kill(@group, @pid) if @pid
  end

  private

  def go_on
    Child.signal('CONT', @group) unless @group.zero?
    @pid ||= Child.start(@environment, @command, @log, input: @input, group: @group)
    @group = @pid if @group.zero?
  end

  # Waits until it has ended or been stopped. A process whose vfork child has been stopped first
  # cannot stop: then both are continued, and stopped again.
  def wait(seconds)
    bell = Thread.new do
      sleep(*seconds)
      loop do
        Child.signal('STOP', @group)
        sleep(STOPS_WITHIN_S)
        Child.signal('CONT', @group)
        sleep(GOES_ON_S)
      end
    end
    Process.wait2(@pid, Process::WUNTRACED).last
  ensure
    bell.kill.join
  end
end

# What a recording says about itself.
class Recording
  attr_reader :info

  def initialize(malloctape, trace, work_dir)
    json = File.join(work_dir, 'info.json')
    Child.run([malloctape, 'info', '--json', json, trace], File.join(work_dir, 'info.log'))
    @info = JSON.parse(File.read(json))
    raise BenchError, "#{trace}: #{info['lost_events']} events were lost" unless
      info['lost_events'].zero?
    raise BenchError, "#{trace}: the recording ends with \"#{info['end']}\"" unless
      info['end'] == 'complete'
  end

  def events = info.fetch('events')
  def bytes_per_event = info.fetch('file_bytes').fdiv(events)
end

# All runs of one workload.
class Measurement
  ROUNDS_MIN = 9
  ROUNDS_MAX = 25
  ROUNDS_STACKS = 5
  PLAIN_SECONDS = 6.0 # how long all plain runs of a short program should take together
  TURN_SECONDS = 0.1

  attr_reader :workload, :times, :recordings, :bytes

  # The runs of each mode have their own directory in `dir`. Recordings are `trace`, with stacks
  # that with the mode's name appended. `usage`: the program that tells how much memory another one
  # had; nil: not wanted.
  def initialize(workload, modes, malloctape, dir, trace, usage)
    @workload = workload
    @modes = modes
    @malloctape = malloctape
    @dir = dir
    @trace = trace
    @usage = usage
    @times = modes.names.to_h { |mode| [mode, []] }
    @bytes = modes.names.to_h { |mode| [mode, []] }
    @recordings = []
  end

  # One run is not counted: it brings the program and its input into memory, and tells how long a
  # run takes. Without `rounds`, there are at least nine, and more for a short program; with stacks
  # five. Under heaptrack a program takes so much longer that one round is enough.
  def take(rounds)
    first = in_turns([:plain]).fetch(:plain)
    rounds ||= @usage ? ROUNDS_STACKS : rounds_by_default(first.wall)
    rounds.times do |round|
      yield round + 1, rounds if block_given?
      modes = order(round)
      modes -= [:heaptrack] if round.positive?
      in_turns(modes).each { |mode, one| times[mode] << one }
      look_at_files(modes)
    end
    self
  end

  # The ratios of a mode to another one, round by round; `what` is :wall, :cpu or :rss.
  def ratios(mode, what, to = :plain) = times[mode].zip(times[to])
    .map { |ours, others| ours[what].fdiv(others[what]) }

  def bytes_per_event = bytes[:on]

  def trace(mode) = mode == :on ? @trace : @trace.sub(/(\.lz4)?\z/, ".#{mode}\\0")

  def remove_traces = FileUtils.rm_f(@modes.names.map { |mode| trace(mode) } + heaptrack_files)

  private

  # heaptrack appends .gz or .zst to the name.
  def heaptrack_files = Dir.glob("#{trace(:heaptrack)}*")

  # In as many rounds as there are orders, each mode follows each other one equally often.
  def order(round)
    @orders ||= @modes.names.size > 3 ? turned(@modes.names) : @modes.names.permutation.to_a
    @orders[round % @orders.size]
  end

  def turned(names)
    names.size.times.flat_map { |first| [names.rotate(first), names.rotate(first).reverse] }
  end

  def rounds_by_default(seconds) = (PLAIN_SECONDS / seconds).ceil.clamp(ROUNDS_MIN, ROUNDS_MAX)

  def look_at_files(modes)
    (modes & @modes.recording).each do |mode|
      recording = Recording.new(@malloctape, trace(mode), @dir)
      bytes[mode] << recording.bytes_per_event
      recordings << recording if mode == :on
    end
    return unless modes.include?(:heaptrack) && times[:heaptrack].any?

    bytes[:heaptrack] << File.size(heaptrack_files.first).fdiv(recordings.last.events)
  end

  # Whether the mode's run is over. heaptrack is not ours: if it fails, its row says so.
  def turn(runs, mode)
    runs[mode].turn(TURN_SECONDS)
  rescue BenchError => e
    raise unless mode == :heaptrack

    warn "#{workload.name}, heaptrack: #{e.message}"
    runs.delete(mode).kill
    true
  end

  # One run of each of these modes; the Child::Times of each that ended well.
  def in_turns(modes)
    modes.each { |mode| FileUtils.rm_f(trace(mode)) }
    FileUtils.rm_f(heaptrack_files) if modes.include?(:heaptrack)
    runs = {}
    modes.each { |mode| runs[mode] = start(mode) }
    running = modes
    until running.empty?
      running = running.reject { |mode| turn(runs, mode) }.rotate
    end
    runs.to_h { |mode, run| [mode, with_memory(mode, run.times)] }
  rescue StandardError, SignalException
    runs.each_value(&:kill)
    raise
  end

  def start(mode)
    dir = File.join(@dir, mode.to_s)
    FileUtils.mkdir_p(dir)
    environment = @modes.environment(mode, trace(mode))
    if @usage
      environment[:usage] = [@usage, '-s', usage_file(mode)]
      environment[:under] = @modes.command(mode, trace(mode))
    end
    workload.start(environment, dir)
  end

  def usage_file(mode) = File.join(@dir, "#{mode}-usage.json")

  def with_memory(mode, times)
    times.rss = JSON.parse(File.read(usage_file(mode)))['peak_rss_bytes'] if @usage
    times
  end
end
