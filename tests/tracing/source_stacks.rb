# What recordings say of the functions of an interpreter, beside what programs have noted of their own
# stacks (workloads/python_witness.py says how).

MALLOCTAPE = File.join(BUILD, 'bin/malloctape')
DEPTH_MAX = 256

# Returns what is on standard error.
def record(words, *program)
  out, errors, status = Open3.capture3(MALLOCTAPE, 'record', '-o', 'raw.lz4', *words, '--', *program)
  $printed = out
  status.success? ? errors : "failed: #{status} #{errors}"
end

# The stacks of objects, by their size, each once.
class SourceStacks
  attr_reader :calls, :names

  # `counts`: whether a file's functions are noted.
  def initialize(name, counts = ->(_path) { true })
    @counts = counts
    @names = Hash.new { |all, code| all[code] = String.new }
    @paths = Hash.new { |all, code| all[code] = String.new }
    @codes = {}
    @nodes = {}
    @sources = {}
    @mapped = {}
    @calls = Hash.new { |all, bytes| all[bytes] = [] }
    @known = {}
    IO.popen([MALLOCTAPE, 'dump', name], 'rb') { |dump| dump.each_line { |line| read(line) } }
  end

  def read(line)
    case line
    when /define text of code (\d+) \d+ from \d+ (\h+)/ then @names[$1.to_i] << [$2].pack('H*')
    when /define module (\d+) from (\S+) to (\S+)/ then @mapped[$1.to_i] = $3 != '0x0'
    when /define text of module (\d+) language/ then @sources[$1.to_i] = !@mapped[$1.to_i]
    when /define text of module (\d+) path \d+ from \d+ (\h+)/ then @paths[$1.to_i] << [$2].pack('H*')
    when /define codes (\d+) module (\d+) (.*)/
      $3.split.each_with_index { |offset, i| @codes[$1.to_i + i] = [$2.to_i, offset.hex] }
    when /define nodes (\d+) parent (\d+) codes (.*)/ then read_nodes($1.to_i, $2.to_i, $3.split)
    when / [mc]alloc (70\d\d|4711) .*?(?:stack (\d+))?$/ then @calls[$1.to_i] << $2.to_i
    end
  end

  def read_nodes(first, parent, codes)
    codes.each_with_index do |code, i|
      @nodes[first + i] = [i.zero? ? parent : first + i - 1, code.to_i]
    end
  end

  # The interpreter's functions with their lines, innermost first; and where the stack ends.
  def stack(node)
    @known[node] ||= begin
      found = []
      while (parent, code = @nodes[node])
        of, offset = @codes[code]
        found << "#{@names[code]}:#{offset & 0xffffffff}" if @sources[of] && @counts.call(@paths[of])
        node = parent
      end
      [found, node]
    end
  end
end

# Stacks that differ from what the program has noted, in words; and how many there are.
def differences(recorded, notes)
  stacks = {}
  wrong = []
  count = 0
  File.foreach(notes, mode: 'rb') do |line|
    kind, number, rest = line.chomp.split(' ', 3)
    next stacks[number.to_i] = rest.to_s.split(';') if kind == 's'

    all = recorded.calls[number.to_i]
    noted = rest.to_s.split
    wrong << "#{noted.size} objects of #{number}, #{all.size} recorded" if all.size != noted.size
    noted.zip(all) do |stack, node|
      found, how = recorded.stack(node)
      count += 1
      wanted = stacks[stack.to_i]
      wanted = wanted.first(DEPTH_MAX) if how == 1
      wrong << "#{wanted.join(' ')} is #{found.join(' ')}" if found != wanted
    end
  end
  [wrong, count]
end

def rows_of(words, by, measure)
  output_of({}, MALLOCTAPE, 'report', 'raw.lz4', '--json', 'json', '--by', by, *words)
  code = JSON.parse(File.read('json'))['code']
  rows = code['rows']
  rows['name'].zip(code['where'][measure], rows[measure], rows["total_#{measure}"])
end
