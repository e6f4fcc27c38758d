# writers.rb - programs in the formats of other tools, from the definitions alone. Each returns the
# bytes of a file.

module Writers
  module_function

  def rep(program)
    ids = program.calls.map(&:object).max + 1
    letters = { free: 'f', realloc: 'r' }
    lines = program.calls.map do |call|
      letter = letters.fetch(call.kind, 'a')
      letter == 'f' ? "f #{call.object}" : "#{letter} #{call.object} #{call.size}"
    end
    ["20000000\n#{ids}\n#{lines.size}\n1\n", *lines.map { |line| "#{line}\n" }].join
  end

  def mtrace(program)
    lines = program.calls.flat_map do |call|
      where = "@ ./a program:(main+0x1f)[0x#{(0x401000 + call.size).to_s(16)}]"
      at = format('0x%x', call.address)
      size = format('%#x', call.size)
      case call.kind
      when :free then "#{where} - #{at}"
      when :realloc
        [format('%s < 0x%x', where, call.old_address), "#{where} > #{at} #{size}"]
      else "#{where} + #{at} #{size}"
      end
    end
    ["= Start\n", *lines.map { |line| "#{line}\n" }, "= End\n"].join
  end

  # With times, 100 us a call.
  def memory_replay(program)
    program.calls.each_with_index.map do |call, i|
      at = format('0x%x', call.address)
      operands =
        case call.kind
        when :malloc then "malloc #{at} #{call.size}"
        when :calloc then "calloc #{at} 1 #{call.size}"
        when :memalign then "memalign #{at} #{call.alignment} #{call.size}"
        when :realloc then format('realloc %s 0x%x %d', at, call.old_address, call.size)
        when :free then "free #{at}"
        end
      "#{call.thread}: #{operands} #{(i * 100_000) + 77} #{(i * 100_000) + 99}\n"
    end.join
  end
end
