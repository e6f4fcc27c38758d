# marks.rb BIN WORKLOADS COUNT SEED [KIND ...] - attaches to programs that look whether anything
# disturbs them, and detaches, COUNT times in all: which one, for how long, and whether something is
# killed in the middle, is random. KIND: as in a shell's file names; all. Ends with a line for each
# kind, and 1 if a program was disturbed, hangs, or lacks memory that it had mapped. SIGINT ends it
# before.
#
# MALLOCTAPE_KILLS: in so many of 100 rounds something is killed; default 10. MALLOCTAPE_KILLED: what,
# one of these words at random (Kill); default: all.
require "pty"
require "tmpdir"
require_relative "targets"

COUNT, SEED = ARGV.shift(2).map(&:to_i)
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

KILLS = Integer(ENV.fetch("MALLOCTAPE_KILLS", 10))
# Under nohup the hangup of a terminal would end nobody.
trap("HUP", "SYSTEM_DEFAULT")
KILLED = ENV.fetch("MALLOCTAPE_KILLED", "helper recorder group terminal service").split.map(&:to_sym)
ROUNDS_MAX = 12 # with one process
TARGETS_MAX = 6 # at a time

# Something that ends a recorder while it attaches: SIGKILL for the process by which it attaches and
# then for itself (helper), for itself alone (recorder), for its process group (group); the hangup of
# its terminal (terminal); what systemd sends to each process of a service that it stops (service).
class Kill
  def initialize(whom, command)
    @whom = whom
    if whom == :terminal
      @input, @output, @recorder = PTY.spawn(*command)
    else
      @recorder = Process.spawn(*command, %i[out err] => File::NULL, pgroup: true, close_others: true)
    end
  end

  def carry_out
    case @whom
    when :helper then signal(:KILL, *children, @recorder)
    when :recorder then signal(:KILL, @recorder)
    when :group then signal(:KILL, -@recorder)
    when :terminal then [@input, @output].each(&:close)
    when :service then %i[TERM CONT HUP].each { |name| signal(name, @recorder, *children) }
    else raise "#{@whom} is not known"
    end
  end

  def over? = Process.wait(@recorder, Process::WNOHANG)

  private

  def signal(name, *processes)
    processes.each do |process|
      Process.kill(name, process)
    rescue Errno::ESRCH
      next
    end
  end

  def children
    File.read("/proc/#{@recorder}/task/#{@recorder}/children").split.map(&:to_i)
  rescue SystemCallError
    []
  end
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
      finish(@targets.delete(name)) if target.ended? || target.rounds.size >= ROUNDS_MAX
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
    how = @random.rand(100) < KILLS ? kill(target) : attach(target)
    @counts[target.name][how] += 1
    target.attached(how)
    compare(target) if how == :attached && target.name =~ STEADY
  end

  def record(target)
    [File.join(BIN, "malloctape"), "record", "--pid", target.pid.to_s, "-o", File.join(@directory, "raw.lz4")]
  end

  def attach(target)
    err = File.join(@directory, "err")
    File.write(err, "")
    recorder = Process.spawn(*record(target), out: File::NULL, err: err, close_others: true)
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

  # At a random moment.
  def kill(target)
    whom = KILLED.sample(random: @random)
    kill = Kill.new(whom, record(target))
    sleep @random.rand * 0.1
    kill.carry_out
    failed(target, "#{whom} killed: the recorder hangs") unless Patience.wait(HANG_S) { kill.over? }
    system(File.join(BIN, "malloctape"), "ctl", target.pid.to_s, "stop", out: File::NULL, err: File::NULL)
    :"#{whom} killed"
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
    @failures << "#{target.name}, after #{target.rounds.size} rounds (#{target.rounds.last(12).join(", ")}): #{text}"
    puts "# FAILED: #{@failures.last}"
    $stdout.flush
    :failed
  end

  def report
    @counts.sort.each { |name, of| puts "# #{name}: #{of.map { |how, count| "#{count} #{how}" }.join(", ")}" }
    all = @counts.values.each_with_object(Hash.new(0)) { |of, sum| of.each { |how, count| sum[how] += count } }
    @stops.sort!
    puts "# in all, over #{@counts.size} kinds: #{all.map { |how, count| "#{count} #{how}" }.join(", ")}"
    puts "# one thread was stopped for #{@stops[@stops.size / 2]} ms in the median, #{@stops.last} at worst" if @stops.any?
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
