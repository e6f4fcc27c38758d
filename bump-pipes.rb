#!/usr/bin/env ruby
# frozen_string_literal: true

# bump-pipes.rb - give a pipeline bigger pipes.
#
#   dd if=p.lz4 bs=1M | ./bump-pipes.rb lz4 -d | ./replay
#                     ^                        ^
#                     both pipes are enlarged, then `lz4 -d` takes this process's place
#
# A pipe holds 64 KiB unless somebody asks for more. Between a decompressor and a replay that is a
# context switch every few microseconds; a larger pipe makes it a rare event.

# fcntl(2), Linux only; Ruby has no names for them.
F_SETPIPE_SZ = 1031
F_GETPIPE_SZ = 1032

# The size tried first: generous without locking up memory, since every filled page of a pipe is
# kernel memory. Only CAP_SYS_RESOURCE may exceed pipe-max-size; for others this costs a few refused
# calls.
LARGEST_PIPE_BYTES = 16 << 20
PIPE_MAX_SIZE_FILE = '/proc/sys/fs/pipe-max-size'

EXIT_USAGE = 2
EXIT_CANNOT_EXECUTE = 126
EXIT_NOT_FOUND = 127

USAGE = "usage: #{File.basename($PROGRAM_NAME)} [-v] [--] COMMAND [ARGUMENT...]"
HELP = <<~TEXT
  #{USAGE}

  Enlarges the pipes on standard input and standard output as far as the system
  allows, then becomes COMMAND. Anything that is not a pipe is left alone.

    -v, --verbose  say on standard error how large each pipe became
    -h, --help     print this text

  Exit status: that of COMMAND; 2 for a wrong command line, 126 when COMMAND
  cannot be executed, 127 when it is not found.
TEXT

# Prints the message as this program's own and ends it.
def fail_with(status, message)
  warn("bump-pipes: #{message}")
  exit!(status)
end

# Splits the command line into [verbose, command line to execute].
def parse(arguments)
  verbose = false
  while arguments.first&.start_with?('-')
    case option = arguments.shift
    when '--' then break
    when '-v', '--verbose' then verbose = true
    when '-h', '--help'
      print(HELP)
      exit
    else fail_with(EXIT_USAGE, "#{option}: unknown option\n#{USAGE}")
    end
  end
  fail_with(EXIT_USAGE, "nothing to execute\n#{USAGE}") if arguments.empty?
  [verbose, arguments]
end

# What an ordinary process may ask for, in bytes; 0 where the system does not say.
def pipe_max_size_bytes
  File.read(PIPE_MAX_SIZE_FILE).to_i
rescue SystemCallError
  0
end

# Enlarges the pipe behind `io`, trying half as much after every refusal and never shrinking it.
# Returns a description of the outcome.
def enlarge(io)
  return 'not a pipe' unless io.stat.pipe?
  return 'left alone: this system cannot resize pipes' unless RUBY_PLATFORM.include?('linux')

  before_bytes = io.fcntl(F_GETPIPE_SZ)
  wanted_bytes = [LARGEST_PIPE_BYTES, pipe_max_size_bytes].max
  while wanted_bytes > before_bytes
    begin
      return "#{before_bytes} -> #{io.fcntl(F_SETPIPE_SZ, wanted_bytes)} bytes"
    rescue SystemCallError
      wanted_bytes /= 2
    end
  end
  "#{before_bytes} bytes, no larger one granted"
rescue SystemCallError, IOError => e
  "left alone: #{e.message}"
end

# Replaces this process. The [name, name] form keeps a lone word with blanks away from the shell.
def become(command, *arguments)
  exec([command, command], *arguments)
rescue Errno::ENOENT
  fail_with(EXIT_NOT_FOUND, "#{command}: not found")
rescue SystemCallError => e
  fail_with(EXIT_CANNOT_EXECUTE, "#{command}: #{e.class.new.message}")
end

verbose, command_line = parse(ARGV)
{ 'stdin' => $stdin, 'stdout' => $stdout }.each do |name, io|
  outcome = enlarge(io)
  warn("bump-pipes: #{name}: #{outcome}") if verbose
end
become(*command_line)
