# killed_calls.rb BIN WORKLOADS STEP [KIND ...] - kills what attaches to a process, and detaches from
# it, just before each STEP-th of its system calls (workloads/kill_at.c): the helper that attaches,
# the one that detaches, and the recorder itself. The process looks whether anything disturbs it
# (workloads/marks.c); each time it is attached to and detached from once more, undisturbed. Ends with
# a line for each kind, and 1 if a process was disturbed, hangs, cannot be attached to, or lacks memory
# that it had mapped.
require 'tmpdir'
require_relative 'targets'

STEP = Integer(ARGV.shift)
# Whose system calls: fork() is the recorder's, once to attach and once to detach.
KILLED = { 'attaching' => 'f1', 'detaching' => 'f2', 'the recorder' => '0' }.freeze
ROUNDS = 10 # with one process
NOT_REACHED = 99
# Not what docs/recording.md excepts: of a write that was cut (pipe), nobody is left to do the rest,
# and waits with a time limit (poll, futex, read_socket) may end with EINTR.
DEFAULT_KINDS = %w[contexts registers counter threads loads].freeze

class KilledCalls
  def initialize(directory)
    @directory = directory
    @failures = []
    @counts = Hash.new(0)
  end

  attr_reader :failures

  def run(name, command)
    KILLED.each do |whom, process|
      call = 1
      call += STEP while round(name, command, whom, process, call)
      finish
      puts "# #{name}, #{whom}: killed at #{@counts[whom]} of #{call - 1} calls"
      @counts[whom] = 0
      $stdout.flush
    end
  end

  private

  # False: the process makes fewer calls.
  def round(name, command, whom, process, call)
    @target ||= Target.new(name, command, @directory)
    @what = "#{name}, #{whom} killed at call #{call}"
    status = ends('kill', File.join(WORKLOADS, 'kill_at'), process, call.to_s, *record)
    return false if status == NOT_REACHED

    @counts[whom] += 1
    again
    finish if @target && (@target.attached.size >= ROUNDS || @target.ended?)
    true
  end

  # As it says in docs/recording.md: after the next one the process is as it was before.
  def again
    ends('stop', File.join(BIN, 'malloctape'), 'ctl', @target.pid.to_s, 'stop')
    status = ends('again', *record)
    said = File.read(File.join(@directory, 'again'))
    failed("the next one ends with #{status.inspect}: #{said.lines.last}") unless status&.zero? || said =~ REFUSALS
    after = maps_of(@target.pid)
    lost = @target.maps.reject { |old| after.any? { |new| new.covers?(old) } }
    failed("memory is no longer mapped: #{lost.first(3)}") unless lost.empty? || @target.ended? || @target.name !~ STEADY
  end

  def record
    [File.join(BIN, 'malloctape'), 'record', '--pid', @target.pid.to_s, '-o',
     File.join(@directory, 'raw.lz4')]
  end

  # Detaches as soon as it has attached. The recorder may be the child of another one.
  def detach(pid, err)
    return false unless File.read(err).include?('recording process')

    child = File.read("/proc/#{pid}/task/#{pid}/children").split.first
    recorder = child && File.read("/proc/#{pid}/comm").start_with?('kill_at') ? child.to_i : pid
    Process.kill(:INT, recorder)
    true
  rescue SystemCallError
    false
  end

  # Its exit status; nil: it was killed, or has hung.
  def ends(name, *command)
    err = File.join(@directory, name)
    pid = Process.spawn(*command, out: File::NULL, err: err, in: File::NULL)
    status = nil
    told = false
    over = Patience.wait(60) do
      told ||= detach(pid, err)
      status = Process.wait2(pid, Process::WNOHANG)&.last
    end
    unless over
      Process.kill(:KILL, pid)
      Process.wait(pid)
      failed("#{command.drop(1).first(3).join(' ')} hangs: #{File.read(err)}")
    end
    status&.exitstatus
  end

  def finish
    problem = @target&.finish
    @target = nil
    failed(problem) if problem
  end

  def failed(text)
    @failures << "#{@what}: #{text}"
    puts "# FAILED: #{@failures.last}"
    $stdout.flush
  end
end

Dir.mktmpdir('malloctape-killed-') do |directory|
  wanted = ARGV.empty? ? DEFAULT_KINDS : ARGV
  killed = KilledCalls.new(directory)
  KINDS.slice(*wanted).each { |name, command| killed.run(name, command) }
  puts "# #{killed.failures.size} failures"
  exit killed.failures.empty?
end
