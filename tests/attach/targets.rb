# targets.rb - programs that look whether anything disturbs them, for scripts that attach to them:
# their kinds, how one is begun and ended, and what it has mapped. Takes two words from the command
# line, BIN and WORKLOADS.
BIN, WORKLOADS = ARGV.shift(2).map { |path| File.expand_path(path) }
MARKS = File.join(WORKLOADS, "marks")
HANG_S = 600
# Of these, the one or the other attach may be refused, with a line.
REFUSALS = /no thread of it could be stopped without harm|another thread of it is loading|it has ended/

own = %w[contexts inner registers errno counter forks spawns execs threads many loads pipe].to_h { |name| [name, [MARKS, name]] }
WAITS = %w[epoll_wait epoll_pwait epoll_pwait2 poll ppoll select pselect recv recvmsg read_socket sigtimedwait
           semtimedop nanosleep clock_nanosleep until futex cond timerfd io_getevents io_uring mq accept
           endless_epoll endless_poll endless_read endless_recv endless_semop endless_sigwaitinfo endless_msgrcv
           endless_futex endless_flock endless_waitpid].freeze
KINDS = own.merge(WAITS.to_h { |name| [name, [MARKS, name]] })
           .merge(WAITS.to_h { |name| ["#{name}-alarms", [MARKS, name, "alarms"]] })
           .merge(WAITS.to_h { |name| ["#{name}-restarts", [MARKS, name, "restarts"]] })
           .merge("crew" => [File.join(WORKLOADS, "crew")], "hazards" => [File.join(WORKLOADS, "hazards"), "lenient"])

# Those whose own memory stays as it is.
STEADY = /\A(contexts|registers|counter)\z|wait|recv|poll|sleep|futex/
class Target
  attr_reader :pid, :name, :rounds, :maps

  def initialize(name, command, directory)
    @name = name
    @rounds = [] # what was done to it
    @output = File.join(directory, "#{name}.out")
    read, @input = IO.pipe
    File.write(@output, "")
    @pid = Process.spawn(*command, in: read, out: @output, err: [@output, "a"], close_others: true)
    read.close
    Patience.wait(60) { text.include?("ready") || ended? || name == "crew" } or raise "#{name} does not begin: #{text}"
    @maps = maps_of(@pid)
  end

  def text = File.read(@output)

  def ended?
    return true if @status
    @status = Process.wait2(@pid, Process::WNOHANG)&.last
    !@status.nil?
  end

  def attached(how = :attached) = @rounds << how

  # Nil, or what has gone wrong.
  def finish
    @input.close
    unless Patience.wait(HANG_S) { ended? }
      Process.kill(:KILL, @pid)
      return "hangs"
    end
    return if @status.success? && text.include?("done")
    "ended with #{@status}: #{text.lines.last}"
  end
end

module Patience
  # Waits up to so many seconds until the block is true; the result is whether it was.
  def self.wait(seconds)
    over = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    until (good = yield)
      return false if Process.clock_gettime(Process::CLOCK_MONOTONIC) > over
      sleep 0.002
    end
    good
  end
end

Mapping = Struct.new(:range, :rights, :file) do
  def covers?(other) = rights == other.rights && file == other.file && range.cover?(other.range)
end

def maps_of(pid)
  File.readlines("/proc/#{pid}/maps", chomp: true).reject { |line| line =~ /libmalloctape|\[heap\]|\[stack\]/ }.map do |line|
    addresses, rights, file = line.split(nil, 6).values_at(0, 1, 5)
    Mapping.new(Range.new(*addresses.split("-").map(&:hex)), rights, file)
  end
rescue SystemCallError
  []
end
