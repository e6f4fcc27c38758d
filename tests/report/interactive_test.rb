#!/usr/bin/env ruby
# frozen_string_literal: true

# interactive_test.rb - `malloctape report -i` on a terminal of its own: tables, trees, filters, times,
# sizes of the screen, and terminals without any abilities.

require 'io/console'
require 'io/wait'
require 'pty'
require 'tmpdir'
require_relative '../tap'
require_relative '../symbols/stack_script'

MALLOCTAPE = "#{BUILD}/bin/malloctape"
CONTROL_L = "\f"
CLEAR = /\e\[H\e\[2?J/

def function(name, line = 1) = Function.new(name, "#{name[/\w+\z/]}.c", line)

# A program that reads a file, and then serves.
def write_trace(path)
  script = StackScript.new
  main = function('main')
  400.times do |i|
    script.allocate(i, 1000, [function('std::vector::push_back'), function('parse', 7), function('reads', 3), main])
    script.tick if (i % 100) == 99
  end
  400.times do |i|
    script.allocate(1000 + i, 300, [function('answer', 9), function('serves', 4), main])
    script.free(i) if i < 300
    script.tick if (i % 100) == 99
  end
  script.write(path)
end

class Terminal
  def initialize(rows, columns, term: 'vt100', words: ['t.p'])
    @screen = +''
    environment = { 'TERM' => term, 'LC_ALL' => 'C.UTF-8', 'LINES' => nil, 'COLUMNS' => nil }
    @from, @to, @pid = PTY.spawn(environment, MALLOCTAPE, 'report', *words, '-i', { chdir: Dir.pwd })
    @from.winsize = [rows, columns]
  rescue Errno::ENOENT
    raise 'no malloctape'
  end

  def resize(rows, columns)
    @from.winsize = [rows, columns]
    Process.kill('WINCH', @pid)
  end

  # What the screen shows after these keys: all of it is drawn once more. Waits for `expected`.
  def after(keys, expected)
    @to.write(keys) unless keys.empty?
    shown = ''
    60.times do
      @to.write(CONTROL_L)
      read_some
      shown = @screen.split(CLEAR).last.to_s.gsub(/\e[()][A-Z0-9]|\e\[[\d;?]*[A-Za-z]|\e[=>78]|[\x0e\x0f]/, ' ')
      return shown if shown.match?(expected)
    end
    shown
  end

  def quit
    @to.write('q')
    read_some while @from.wait_readable(10)
  rescue Errno::EIO, EOFError
    Process.wait2(@pid)[1].exitstatus
  end

  # Reads until nothing more comes for a while.
  def read_some
    @screen << @from.read_nonblock(1 << 16) while @from.wait_readable(0.05)
  end

  def rest
    read_some while @from.wait_readable(10)
  rescue Errno::EIO, EOFError
    [@screen, Process.wait2(@pid)[1].exitstatus]
  end
end

def shows(text, screen, *expected)
  missing = expected.reject { |one| screen.match?(one) }
  report missing.empty?, text, missing.map(&:inspect) + screen.lines.first(30)
end

Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  plan 13
  write_trace('t.p')
  terminal = Terminal.new(24, 80)
  screen = terminal.after('', /main/)
  shows('the table: itself, and with what it calls', screen, /sample\s+table: by bytes asked for/,
        /391 KiB\s+77 %\s+391 KiB\s+parse\s+parse.c:7/, /0 bytes\s+0.0 %\s+508 KiB\s+main/, /1 of 6/)
  shows('the next number', terminal.after('m', /objects made/), /objects made/, /400\s+50 %\s+400\s+answer/)
  shows('sizes and lifetimes of what a row makes', terminal.after('l', /later/), /parse itself/,
        /never\s+all\s+400\s+391 KiB\s+97.7 KiB\s+\.\s+75 %\s+\.\s+\.\s+25 %\s+512 bytes\s+400\s/)
  shows('sorted by what is called, and back', terminal.after('s', /\n?.*main.*parse/m), /main.*parse/m)
  shows('a filter', terminal.after("M/ANSW\r", /1 of 1/), /with ANSW/, /answer\s+answer.c:9/, /1 of 1/)
  shows('without it', terminal.after("/\b\b\b\b\r", /1 of 6/), /1 of 6/)
  terminal.after('2', /tree/)
  shows('the tree from the outside in, opened', terminal.after("\r\e[C", /reads/),
        /- main/, /508 KiB/, /\+ reads/, /\+ serves/)
  shows('callers: what a container makes counts for who fills it', terminal.after('3', /made by/),
        /\+ parse/, /\+ answer/)
  shows('opened', terminal.after("\r", /reads/), /- parse.*\+ reads/m)
  terminal.after("1t0 40ms\r", /grown/)
  shows('a part of the time', terminal.after('m', /allocated/), /allocated in this time.*0 ms to 40 ms/,
        /391 KiB\s+100 %\s+391 KiB\s+parse/)
  shows('the next part', terminal.after(']', /40 ms to/), /40 ms to 80 ms/, /117 KiB\s+100 %\s+117 KiB\s+answer/)
  terminal.resize(8, 40)
  small = terminal.after('', /KiB answer/)
  terminal.resize(30, 120)
  large = terminal.after('?', /quits/)
  report small.match?(/answer/) && large.match?(/a stretch of time: from and to/) && terminal.quit.zero?,
         'other sizes of the screen, help, the end', [small, large]

  refused = Terminal.new(24, 80, term: 'no-such-terminal').rest
  none = IO.popen([MALLOCTAPE, 'report', 't.p', '-i', { in: '/dev/null', err: %i[child out] }], &:read)
  report refused[0].include?('$TERM names no terminal') && refused[1] == 1 &&
         none == "malloctape report: t.p: -i needs a terminal\n", 'no terminal, one that is unknown', [refused.to_s, none]
end
