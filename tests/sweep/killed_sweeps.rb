# killed_sweeps.rb BIN COUNT SEED [slurm] - carries out sweeps and compares of two small recordings, and kills them and
# their replays at random moments, COUNT of them in all. A sweep goes on when it is called again, until
# it says that all is there; then it has the rows and events of one that nobody disturbed. A compare whose
# replay was killed has them too, or says which row is missing, and a replay that was killed once is
# tried again. With `slurm`, all are sweeps there (SLURM_CONF); who is killed is the same. Prints a line for each that is wrong; the last line says how many were.
require "json"
require "open3"
require "tmpdir"

BIN = File.expand_path(ARGV.fetch(0))
COUNT = Integer(ARGV.fetch(1))
RANDOM = Random.new(Integer(ARGV.fetch(2)))
ON = ARGV[3] ? ["--on", ARGV[3]] : []
ALLOCATORS = %w[glibc jemalloc mimalloc].freeze
TRIES_MAX = 40
MALLOCTAPE = File.join(BIN, "malloctape")

def record(name, script)
  system(MALLOCTAPE, "record", "-q", "-o", name, "--", "perl", "-e", script) or raise "recording failed"
end

def children_of(pid)
  own = Dir.glob("/proc/#{pid}/task/*/children").flat_map { |file| File.read(file).split.map(&:to_i) rescue [] }
  own + own.flat_map { |child| children_of(child) }
end

# On Slurm they are children of its daemons.
def ours(pid)
  return children_of(pid) if ON.empty?
  wanted = "SLURM_CONF=#{ENV.fetch("SLURM_CONF")}"
  Dir.glob("/proc/[0-9]*").map { |folder| File.basename(folder).to_i }
     .select { |other| (File.binread("/proc/#{other}/environ") rescue "").split("\0").include?(wanted) }
end

def replays_below(pid)
  ours(pid).select { |child| (File.read("/proc/#{child}/comm") rescue "") =~ /\Areplay/ }
end

# Runs it, and kills at random: the whole command, or its replays. Returns its status and how many
# were killed.
def disturbed(command, kills)
  killed = 0
  output = "out#{Process.pid}"
  pid = Process.spawn(*command, out: output, err: [output, "a"], pgroup: true)
  status = nil
  until (status = Process.wait2(pid, Process::WNOHANG)&.last)
    sleep RANDOM.rand * 0.3
    next if killed >= kills
    victims = RANDOM.rand < 0.3 ? [pid] : replays_below(pid)
    victims.each { |victim| Process.kill(:KILL, victim) rescue next }
    killed += 1 unless victims.empty?
  end
  [status, killed, File.read(output)]
end

# Each row of a compare, and whether it has numbers.
def rows_of(file)
  JSON.parse(File.read(file)).fetch("allocators").map { |row| [row["entry"], row["status"]] }.sort
end

# The same of all results of a sweep, and what is missing.
def sweep_results(directory)
  table = JSON.parse(Open3.capture2(MALLOCTAPE, "sweep", "--collect", directory, "--json", "-").first)
  rows = table.fetch("rows").to_h { |row| [row.values_at("trace", "entry", "status", "allocator", "runs"), row["replay_peak_net_rss_bytes"]] }
  [table.fetch("missing"), rows]
end

# Rows and what is missing are the same, and peaks differ by no more than replays do.
def is_same(one, other)
  one.first == other.first && one.last.keys.sort == other.last.keys.sort &&
    one.last.all? { |row, peak| (peak - other.last[row]).abs <= 0.05 * peak }
end

wrong = killed_all = 0
Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  record("a.lz4", 'push @a, (qq(x) x (1 + $_ % 300)) for 1..30000; @a = (); push @b, [1..5] for 1..5000')
  record("b.lz4", '$h{$_} = qq(y) x 40 for 1..20000; delete $h{$_} for 1..10000')
  plan, = Open3.capture2(MALLOCTAPE, "sweep", "--plan", "a.lz4", "b.lz4")
  plan = JSON.parse(plan)
  File.write("plan.json", JSON.generate(plan))
  system(MALLOCTAPE, "sweep", "plan.json", "--dir", "calm", out: File::NULL) or raise "the calm sweep failed"
  calm = sweep_results("calm")
  system(MALLOCTAPE, "compare", "a.lz4", "-a", ALLOCATORS.join(","), "-r", "2", "--json", "calm.json", out: File::NULL, err: File::NULL)
  COUNT.times do |number|
    if number.even? || ON.any?
      kills, tries, status = 1 + RANDOM.rand(4), 0, nil
      total = 0
      loop do
        status, killed, said = disturbed([MALLOCTAPE, "sweep", "plan.json", "--dir", "s#{number}", *ON], kills - total)
        total += killed
        tries += 1
        break if status.success? || tries == TRIES_MAX
      end
      killed_all += total
      next if status&.success? && is_same(calm, sweep_results("s#{number}"))
      wrong += 1
      puts "# sweep #{number}, #{total} killed: #{status}; #{said.to_s.lines.last}"
    else
      status, killed, said = disturbed([MALLOCTAPE, "compare", "a.lz4", "-a", ALLOCATORS.join(","), "-r", "2", "--json", "c.json"], 1 + RANDOM.rand(3))
      killed_all += killed
      whole = status.success? && rows_of("c.json") == rows_of("calm.json")
      next if whole || status.signaled? || said =~ /missing|killed|signal/
      wrong += 1
      puts "# compare #{number}, #{killed} killed: #{status}; #{said.lines.last(2).join}"
    end
  end
end
puts "#{COUNT} sweeps and compares, #{killed_all} times killed, #{wrong} wrong"
exit wrong.zero?
