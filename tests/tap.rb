# tap.rb - what tests in Ruby share: TAP, and where the build is.
#
#     require_relative 'tap'
#     plan 3
#     report failures.empty?, 'text', failures     one test; the notes stand below it as lines that
#                                                  begin with "#"
#     skip 'text', 'reason'
#     text = output_of({ 'NAME' => 'value' }, 'program', 'word')
#                                                  what it writes; if it fails, the test ends

require 'open3'

BUILD = ENV.fetch('MALLOCTAPE_BUILD') { File.expand_path('../build', __dir__) }

# How much of something a test does: with MALLOCTAPE_LONG set (make check-long), the second.
def size(normal, long) = ENV['MALLOCTAPE_LONG'] ? long : normal

def plan(count) = puts("1..#{count}")

def report(good, text, notes = [])
  $tests_run = $tests_run.to_i + 1
  puts "#{'not ' unless good}ok #{$tests_run} - #{text}"
  notes.each { |note| puts note.gsub(/^/, '# ') }
  puts "# so far: #{Process.times.to_a.join(' ')}" if ENV['MALLOCTAPE_TIMES']
end

def skip(text, reason)
  $tests_run = $tests_run.to_i + 1
  puts "ok #{$tests_run} # SKIP #{text}: #{reason}"
end

def output_of(environment, *command)
  output, errors, status = Open3.capture3(environment, *command)
  return output if status.success?

  puts "Bail out! #{command.join(' ')} failed: #{errors.lines.last}"
  exit 1
end
