# marks.rb BIN WORKLOADS COUNT SEED [KIND ...] - attaches to programs that look whether anything
# disturbs them, and detaches, COUNT times in all: which one, for how long, and whether the recorder
# is killed in the middle, is random. KIND: as in a shell's file names; all. Ends with a line for each
# kind, and 1 if a program was disturbed, hangs, or lacks memory that it had mapped. SIGINT ends it
# before.
require "tmpdir"

BIN, WORKLOADS = ARGV.shift(2).map { |path| File.expand_path(path) }
COUNT, SEED = ARGV.shift(2).map(&:to_i)
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
# Programs in other languages: how each is made in a directory, and run. Without the compiler, it is
# left out, with a line.
SOURCES = File.join(__dir__, "others")
OTHERS = {
  "goroutines" => [["go", "build", "-o", "goroutines", "#{SOURCES}/goroutines.go"], ["./goroutines"]],
  "pool" => [["rustc", "-O", "-o", "pool", "#{SOURCES}/pool.rs"], ["./pool"]],
  "fibers" => [["c++", "-O1", "-o", "fibers", "#{SOURCES}/fibers.cc", "-lboost_context"], ["./fibers"]],
  "java" => [["javac", "-d", ".", "#{SOURCES}/Load.java"], ["java", "-cp", ".", "Load"]],
  "python" => [["true"], ["python3", "-u", "#{SOURCES}/load.py"]],
  "node" => [["true"], ["node", "#{SOURCES}/load.js"]]
}.freeze

def other_kinds(directory, wanted)
  OTHERS.select(&wanted).filter_map do |name, (making, running)|
    made = system({"CGO_ENABLED" => "1"}, *making, chdir: directory, out: File::NULL, err: File::NULL)
    next puts("# #{name} is left out: #{making.first} fails") unless made
    [name, running.map { |word| word.sub(/\A\.(?=\z|\/)/, directory) }]
  end.to_h
end

# Those whose own memory stays as it is.
STEADY = /\A(contexts|registers|counter)\z|wait|recv|poll|sleep|futex/
ROUNDS_MAX = 12 # with one process
TARGETS_MAX = 6 # at a time

class Target
  attr_reader :pid, :name, :rounds, :maps

  def initialize(name, command, directory)
    @name = name
    @rounds = 0
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

  def attached = @rounds += 1

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

class Campaign
  def initialize(directory, random, kinds)
    @directory, @random, @kinds = directory, random, kinds
    @targets = {}
    @counts = Hash.new { |hash, key| hash[key] = Hash.new(0) }
    @stops = []
    @failures = []
  end

  def run(count)
    count.times do
      name = @kinds.keys.sample(random: @random)
      name = @kinds.keys.reject { |kind| kind =~ /-(alarms|restarts)\z/ }.sample(random: @random) || name if @random.rand < 0.6
      target = (@targets[name] ||= Target.new(name, @kinds[name], @directory))
      round(target)
      finish(@targets.delete(name)) if target.ended? || target.rounds >= ROUNDS_MAX
      finish(@targets.shift.last) if @targets.size > TARGETS_MAX
    end
  rescue Interrupt
    puts "# asked to end"
  rescue StandardError => error
    @failures << error.full_message
    puts "# FAILED: #{error.full_message}"
  ensure
    @targets.each_value { |target| finish(target) }
    report
  end

  private

  def round(target)
    how = @random.rand < 0.1 ? :killed : attach(target)
    kill(target) if how == :killed
    @counts[target.name][how] += 1
    target.attached
    compare(target) if how == :attached && target.name =~ STEADY
  end

  def spawn(target)
    err = File.join(@directory, "err")
    File.write(err, "")
    recorder = Process.spawn(File.join(BIN, "malloctape"), "record", "--pid", target.pid.to_s, "-o",
                             File.join(@directory, "raw.lz4"), out: File::NULL, err: err, close_others: true)
    [recorder, err]
  end

  def attach(target)
    recorder, err = spawn(target)
    status = nil
    began = Patience.wait(HANG_S) do
      status = Process.wait2(recorder, Process::WNOHANG)&.last
      status || File.read(err).include?("recording process")
    end
    unless began
      Process.kill(:KILL, recorder)
      Process.wait(recorder)
      return failed(target, "attaching hangs: #{File.read(err)}")
    end
    unless status
      sleep @random.rand * 0.05
      Process.kill(:INT, recorder)
      status = Patience.wait(HANG_S) { Process.wait2(recorder, Process::WNOHANG)&.last }
    end
    judge(target, status, File.read(err))
  end

  def judge(target, status, text)
    @stops.concat(text.scan(/stopped for ([0-9.]+) ms/).flatten.map(&:to_f))
    return :attached if status&.success? && text.include?("detached from process")
    return :refused if text =~ REFUSALS
    return :ended if target.ended?
    failed(target, "attaching: #{status.inspect}: #{text.lines.last}")
  end

  # The recorder, with the process that it attaches with, at a random moment.
  def kill(target)
    recorder, = spawn(target)
    sleep @random.rand * 0.1
    [*children(recorder), recorder].each do |pid|
      Process.kill(:KILL, pid)
    rescue Errno::ESRCH
      next
    end
    Process.wait(recorder)
    system(File.join(BIN, "malloctape"), "ctl", target.pid.to_s, "stop", out: File::NULL, err: File::NULL)
  end

  def children(pid)
    File.read("/proc/#{pid}/task/#{pid}/children").split.map(&:to_i)
  rescue SystemCallError
    []
  end

  # The library and its own memory are there, besides.
  def compare(target)
    after = maps_of(target.pid)
    lost = target.maps.reject { |old| after.any? { |new| new.covers?(old) } }
    failed(target, "memory is no longer mapped: #{lost.first(3)}") unless lost.empty? || target.ended?
  end

  def finish(target)
    problem = target.finish
    failed(target, problem) if problem
  end

  def failed(target, text)
    @failures << "#{target.name}, after #{target.rounds} rounds: #{text}"
    puts "# FAILED: #{@failures.last}"
    $stdout.flush
    :failed
  end

  def report
    @counts.sort.each { |name, of| puts "# #{name}: #{of.map { |how, count| "#{count} #{how}" }.join(", ")}" }
    all = @counts.values.each_with_object(Hash.new(0)) { |of, sum| of.each { |how, count| sum[how] += count } }
    @stops.sort!
    puts "# in all, over #{@counts.size} kinds: #{all.map { |how, count| "#{count} #{how}" }.join(", ")}; " \
         "one thread was stopped for #{@stops[@stops.size / 2]} ms in the median, #{@stops.last} at worst"
    puts "# #{@failures.size} failures; seed #{SEED}"
    exit(@failures.empty?)
  end
end

trap(:INT) { raise Interrupt } # also in the background, where a shell has it ignored
Dir.mktmpdir("malloctape-marks-") do |directory|
  wanted = ->(name, _) { ARGV.empty? || ARGV.any? { |pattern| File.fnmatch(pattern, name) } }
  kinds = KINDS.select(&wanted).merge(other_kinds(directory, wanted))
  Campaign.new(directory, Random.new(SEED), kinds).run(COUNT)
end
