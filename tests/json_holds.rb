# json_holds.rb FILE EXPRESSION - whether the Ruby expression holds, where j is the parsed file. If
# it does not, lines that begin with "#" say which part of "a && b && c" is false, and what is in
# it.
require 'json'

def empty_scope = binding

SCOPE = empty_scope
SCOPE.local_variable_set(:j, JSON.parse(File.read(ARGV[0])))

def text_of(node)
  lines = ARGV[1].lines[node.first_lineno - 1..node.last_lineno - 1]
  lines[-1] = lines[-1].byteslice(0, node.last_column)
  lines[0] = lines[0].byteslice(node.first_column..)
  lines.join
end

def value_of(node) = SCOPE.eval(text_of(node))

# The statements, the last of which is taken apart at its "&&".
def parts_of(node)
  case node.type
  when :BLOCK then node.children[..-2] + parts_of(node.children.last)
  when :AND then node.children.flat_map { |child| parts_of(child) }
  else [node]
  end
end

# What has a value of its own in a part that is false.
def operands_of(node)
  node.children.grep(RubyVM::AbstractSyntaxTree::Node).flat_map do |child|
    case child.type
    when :LIST, :OPCALL then operands_of(child)
    when :CALL then node.type == :ITER ? operands_of(child) : [child]
    when :ITER then [child]
    else []
    end
  end
end

def tell(text, value) = puts("# #{text.split.join(' ')} is #{value}"[0, 400])

begin
  failed = nil
  parts = parts_of(RubyVM::AbstractSyntaxTree.parse(ARGV[1]).children[2])
  parts.each do |part|
    failed = part
    aside = part != parts.last && %i[LASGN MASGN IF].include?(part.type)
    break unless value_of(part) || aside

    failed = nil
  end
rescue NoMethodError, TypeError => e
  tell(ARGV[0], e.message)
end
exit unless failed

tell("#{ARGV[0]}: #{text_of(failed)}", 'false')
operands_of(failed).each { |node| tell(text_of(node), (value_of(node).inspect rescue next)) }
(SCOPE.local_variables - [:j]).each do |name|
  tell(name.to_s, SCOPE.local_variable_get(name).inspect)
end
exit false
