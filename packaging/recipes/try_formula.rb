# Installs a formula from a local archive and runs its test, with a small stand-in for Homebrew.
# usage: ruby try_formula.rb FORMULA OS ARCHITECTURE CHECKSUM_FILE [ARCHIVE PREFIX]
# OS is linux or macos, ARCHITECTURE intel or arm. Without ARCHIVE, the formula is only read.
# The names of the stand-in are those of the Formula Cookbook (docs.brew.sh/Formula-Cookbook, checked 2026-11-22).
require "fileutils"
require "pathname"

formula_file, OS_NAME, ARCHITECTURE, checksum_file, archive, prefix = ARGV

module OS
  def self.mac? = OS_NAME == "macos"
end

# A folder of the installed tree: `install "a"`, or `install "a" => "b"` to rename.
class Folder
  def initialize(path) = @path = Pathname(path)
  def /(name) = @path/name
  def to_s = @path.to_s

  def install(*files)
    files.each do |file|
      from, to = file.is_a?(Hash) ? file.first : [file, File.basename(file)]
      FileUtils.mkdir_p(@path)
      FileUtils.cp(from, @path/to)
    end
  end
end

class Formula
  FIELDS = %i[desc homepage version license url sha256].freeze
  class << self
    attr_reader :facts, :test_block
    def inherited(formula) = formula.instance_variable_set(:@facts, { needs: [] })
    FIELDS.each { |field| define_method(field) { |value| @facts[field] = value } }
    def depends_on(what) = @facts[:needs] << what
    def on_macos = (yield if OS_NAME == "macos")
    def on_linux = (yield if OS_NAME == "linux")
    def on_intel = (yield if ARCHITECTURE == "intel")
    def on_arm = (yield if ARCHITECTURE == "arm")
    def test(&block) = @test_block = block
  end

  def initialize(prefix) = @prefix = Pathname(prefix)
  def version = self.class.facts[:version]
  def testpath = Pathname.pwd
  def bin = Folder.new(@prefix/"bin")
  def man1 = Folder.new(@prefix/"share/man/man1")
  def bash_completion = Folder.new(@prefix/"etc/bash_completion.d")
  def zsh_completion = Folder.new(@prefix/"share/zsh/site-functions")
  def fish_completion = Folder.new(@prefix/"share/fish/vendor_completions.d")
  def assert_match(part, text) = text.include?(part) || abort("#{part} is not in: #{text}")

  def shell_output(command)
    text = `#{command}`
    $?.success? || abort("#{command} failed")
    text
  end
end

load formula_file
facts = Oomdoctor.facts
Formula::FIELDS.each { |field| facts[field] || abort("the formula for #{OS_NAME} #{ARCHITECTURE} has no #{field}") }
# `brew audit` wants at most 80 characters of name and description, with no article in front.
abort("the description is too long") if facts[:desc].length + "oomdoctor: ".length > 80
name = File.basename(facts[:url])
File.foreach(checksum_file).any? { |line| line.split == [facts[:sha256], name] } ||
  abort("#{checksum_file} has no #{name} with #{facts[:sha256]}")
puts "#{OS_NAME} #{ARCHITECTURE}: #{facts[:url]}"

if archive
  Dir.chdir(FileUtils.mkdir_p("#{prefix}/build").first) do
    system("tar", "xf", archive, "--strip-components=1") || abort("tar failed")
    formula = Oomdoctor.new(prefix)
    formula.install
    formula.instance_eval(&Oomdoctor.test_block)
  end
end
