#!/usr/bin/env ruby
# printed_test.rb - texts from outside reach people through common/printable.h only: by the sources,
# each argument that is printed as text is one of that kind, or stands in printed_texts.txt with a
# reason; and no command prints a control character from the name of a file, a program, a thread, a
# setting or an option. Prints TAP.
require 'tmpdir'

require_relative '../tap'
require_relative 'printed'

SOURCE = ENV.fetch('MALLOCTAPE_SOURCE') { File.expand_path('../..', __dir__) }
ROOMS = %w[advise attach base change cli common compare convert cut inspect keep launch malloctape page
           postprocess reading replay report stream sweep symbols].freeze
MALLOCTAPE = File.join(BUILD, 'bin/malloctape')
# ESC and an operating system's command, CSI as one character, a change of direction, no UTF-8.
HOSTILE = "\e]0;PWNED\a\u009b31m\u202e".b.freeze
CONTROLS = /[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]/n.freeze

def allowed
  file = nil
  File.readlines("#{SOURCE}/tests/scripts/printed_texts.txt", chomp: true).filter_map { |line|
    case line
    when /\A(\S+\.c): \S/ then file = Regexp.last_match(1) and nil
    when /\A {4}(.*)\z/ then [file, Regexp.last_match(1)]
    end
  }
end

def printed
  ROOMS.flat_map { |room| Dir.glob("#{room}/*.c", base: SOURCE).sort }
       .flat_map { |file| printed_texts(file, File.read("#{SOURCE}/#{file}")) }
       .reject { |_, _, text| ours?(text) }
end

# What a command prints, on both outputs.
def said(*command, env: {})
  IO.popen([env, *command, { err: %i[child out], in: File::NULL }], 'rb', &:read)
end

def clean(what, *command, env: {})
  text = said(*command, env: env)
  raw = text[CONTROLS]
  [what, raw.inspect, text.inspect[0, 200]] if raw || (!text.include?('PWNED') && !what.end_with?('letter'))
end

def commands(trace, two)
  open = %w[info verify dump report].map { |one| [one, [one, trace]] }
  other = [
    ['report of two', ['report', trace, two]], ['info of two', ['info', trace, two]],
    ['report --focus', ['report', trace, '--focus', HOSTILE]],
    ['report --ignore', ['report', trace, '--ignore', HOSTILE]],
    ['report --by', ['report', trace, '--by', HOSTILE]],
    ['report --symbols', ['report', trace, '--symbols', HOSTILE]],
    ['report --fail-if', ['report', trace, '--fail-if', "bytes@#{HOSTILE}>1"]],
    ['report --html', ['report', trace, '--html', "#{HOSTILE}/x"]],
    ['compare of two', ['compare', '-r1', '-a', 'glibc', trace, two]],
    ['a setting', ['compare', '-r1', '-a', "glibc,glibc:GLIBC_TUNABLES=#{HOSTILE}", trace]],
    ['a library', ['compare', '-r1', '-a', "./#{HOSTILE}.so", trace]],
    ['report as JSON', ['report', '--json', '-', trace]],
    ['change', ['change', '-o', 'c', trace, "#{HOSTILE.delete(';')}: remove"]],
    ['advise', ['advise', "./no#{HOSTILE}"]],
    ['advise --symbols', ['advise', trace, '--symbols', HOSTILE]],
    ['what if', ['compare', '-r1', '-a', 'glibc', '--what-if', "#{HOSTILE.delete(';')}: remove", trace]],
    ['report --source', ['report', trace, '--source', HOSTILE]],
    ['report --from', ['report', trace, '--from', HOSTILE]],
    ['report --suppressions', ['report', trace, '--suppressions', "./no#{HOSTILE}"]],
    ['cut', ['cut', '-o', "./no#{HOSTILE}/x", trace]],
    ['order', ['order', trace, "./#{HOSTILE}/no"]], ['import', ['import', '-o', 'x', two]],
    ['export', ['export', '--to', HOSTILE, '-o', 'y', trace]],
    ['sweep', ['sweep', HOSTILE]], ['sweep --plan', ['sweep', '--plan', "./no#{HOSTILE}"]],
    ['ctl', ['ctl', HOSTILE, 'status']], ['top', ['top', HOSTILE]],
    ['record', ['record', "./no#{HOSTILE}"]], ['record -o', ['record', '-o', "no#{HOSTILE}/x", 'true']],
    ['a command', [HOSTILE]], ['help', ['help', HOSTILE]]
  ]
  options = %w[advise change cut record order replay info dump verify report compare sweep import export ctl top]
            .flat_map { |one| [["#{one}, an option", [one, "--#{HOSTILE}"]], ["#{one}, a letter", [one, "-\u009bPWNED"]]] }
  open + other + options
end

# A program whose name, threads and file are hostile, recorded beside that name.
def record_hostile
  File.write('p.c', "#include <stdlib.h>\n#include <sys/prctl.h>\nint main(void) {\n" \
                    "prctl(PR_SET_NAME, \"\\033[31mPWN\");\n" \
                    "for (int i = 0; i < 100; i++) free(malloc(i));\nreturn 0; }\n")
  system(*(ENV['CC'] || 'cc').split, '-g', '-o', "p#{HOSTILE}", 'p.c') or raise 'no compiler'
  ["r#{HOSTILE}.lz4", "s#{HOSTILE}.lz4"].map do |trace|
    recorded = said(MALLOCTAPE, 'record', '--stacks=all', '-o', trace, "./p#{HOSTILE}")
    raise recorded.inspect if recorded[CONTROLS] || !File.exist?(trace)

    trace
  end
end

plan 4
all = printed
missing = all.map { |file, _, text| [file, text] }.uniq - allowed
report missing.empty?, 'what is printed as text goes through printable.h, or has a reason',
       all.select { |file, _, text| missing.include?([file, text]) }.map { |one| one.join(' ') }
stale = allowed - all.map { |file, _, text| [file, text] }
report stale.empty?, 'no reason stands there for nothing', stale.map { |one| one.join(' ') }
found = printed_texts('x.c', 'f(); "fputs(\\""; fprintf(to, "%s %*d %s\n", "a", 3, 4, name); fputs(b ? "x" : y, to);')
report found.map(&:last).reject { |one| ours?(one) } == ['name', 'b ? "x" : y'], 'a text would be found',
       [found.to_s]
Dir.mktmpdir do |directory|
  Dir.chdir(directory) do
    trace, two = record_hostile
    wrong = commands(trace, two).filter_map { |what, words| clean(what, MALLOCTAPE, *words) }
    report wrong.empty?, 'no command prints control characters from outside', wrong.map(&:to_s)
  end
end
