# frozen_string_literal: true

# printed.rb - finds what product code prints as text by itself: arguments of printf() and its
# relatives for a %s, and of fputs(), puts() and fwrite(). Whatever is from outside (names of files,
# processes, functions, threads; answers of other programs) must go through common/printable.h.

PRINTERS = { 'printf' => 0, 'fprintf' => 1, 'dprintf' => 1 }.freeze
PUTTERS = %w[fputs puts fwrite].freeze
CONVERSION = /%[-+ #0]*(\*|\d+)?(?:\.(\*|\d+)?)?(?:hh|h|ll|l|z|j|t|L)?([a-zA-Z%])/.freeze

# The arguments of a call whose first parenthesis is open at `at`.
def arguments(text, at)
  list = [+'']
  depth = 1
  quote = nil
  while depth.positive?
    char = text[at]
    raise 'a call has no end' unless char

    if quote
      char += text[at += 1] if char == '\\'
      quote = nil if char == quote
    elsif ['"', "'"].include?(char)
      quote = char
    elsif '([{'.include?(char)
      depth += 1
    elsif ')]}'.include?(char)
      depth -= 1
    end
    at += 1
    break if depth.zero?

    depth == 1 && quote.nil? && char == ',' ? list << +'' : list.last << char
  end
  list.map { |one| one.strip.gsub(/\s+/, ' ') }
end

LITERAL = /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'/.freeze

def without_comments(text)
  text.gsub(%r{#{LITERAL}|/\*.*?\*/}m) { |one| one.start_with?('/*') ? one.gsub(/[^\n]/, ' ') : one }
end

# A source that the product writes is a text in ours: what it prints is not printed by us.
def without_texts(text) = text.gsub(LITERAL) { |one| one.gsub(/[^\n]/, ' ') }

# The arguments that a format prints as text, and the format itself if it is no constant.
def texts_of(format, given)
  options = format.start_with?('"') ? [] : choices(format[/\A[^"?]*\? (.*)\z/, 1].to_s)
  return options.flat_map { |one| texts_of(one, given.dup) }.uniq if options.size > 1

  texts = format.start_with?('"') ? [] : [format]
  format.gsub(/" ?PRI\w+ ?"?/, 'd').scan(CONVERSION) do |width, precision, kind|
    next if kind == '%'

    [width, precision].each { |one| given.shift if one == '*' }
    one = given.shift
    texts << one.to_s if kind == 's'
  end
  texts
end

# [[file, line, expression], ...]
def printed_texts(file, source)
  text = without_comments(source)
  without_texts(text).enum_for(:scan, /\b(\w+)\(/).flat_map do
    name = Regexp.last_match(1)
    next [] unless PRINTERS.key?(name) || PUTTERS.include?(name)

    line = text[0, Regexp.last_match.begin(0)].count("\n") + 1
    given = arguments(text, Regexp.last_match.end(0))
    shown = PUTTERS.include?(name) ? [given.first] : texts_of(*given.drop(PRINTERS[name]).then { |f, *rest| [f.to_s, rest] })
    shown.map { |one| [file, line, one] }
  end
end

# Texts that need no reason: constants, choices between them, numbers as words.
def ours?(expression)
  return true if expression.match?(/\A(?:[A-Z_]+ )?"(?:[^"\\]|\\.)*"(?: (?:[A-Z_]+|"(?:[^"\\]|\\.)*"))*\z/)
  return true if expression.match?(/\A(?:printable_text|words_\w+|value_text|comma|numbers_\w+)\(.*\)\z/)
  return true if expression.match?(/\Acall_names\[[^\]]*\]*\z/)
  return true if expression.match?(/\A[A-Z][A-Z_]+\z/)

  choice = expression.match(/\A[^"?]*\? (.*)\z/)
  choice ? choices(choice[1]).then { |all| all.size > 1 && all.all? { |one| ours?(one) } } : false
end

# "A : B" at its first colon outside of quotes and parentheses.
def choices(text)
  depth = 0
  quote = nil
  text.each_char.with_index do |char, i|
    if quote
      quote = nil if char == quote && text[i - 1] != '\\'
    elsif ['"', "'"].include?(char) then quote = char
    elsif '([{'.include?(char) then depth += 1
    elsif ')]}'.include?(char) then depth -= 1
    elsif char == ':' && depth.zero?
      return [text[0...i].strip, text[i + 1..].strip]
    end
  end
  [text]
end
