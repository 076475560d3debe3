#include "kernel_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>
#include <sstream>

namespace emulation {
namespace {

bool is_part_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Where `word` is next, as a whole word.
std::size_t find_word(const std::string& text, const std::string& word, std::size_t from) {
  for (std::size_t at = text.find(word, from); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !is_part_of_word(text[at - 1]);
    const bool ends = at + word.size() == text.size() || !is_part_of_word(text[at + word.size()]);
    if (begins && ends) return at;
  }
  return std::string::npos;
}

/// True if a string or a character begins at `at`; 1'000 has none.
bool is_quote(const std::string& text, std::size_t at) {
  return text[at] == '"' || (text[at] == '\'' && (at == 0 || std::isxdigit(static_cast<unsigned char>(text[at - 1])) == 0));
}

std::size_t behind_quoted(const std::string& text, std::size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote; ++at)
    if (text[at] == '\\') ++at;
  return at + 1;
}

/// Behind the bracket that closes the one at `at`.
std::size_t behind_brackets(const std::string& text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    if (is_quote(text, at)) {
      at = behind_quoted(text, at);
      continue;
    }
    const char c = text[at++];
    if (c == '(' || c == '{') ++depth;
    if ((c == ')' || c == '}') && --depth == 0) return at;
  }
  return text.size();
}

struct Place {
  std::size_t begin = 0, end = 0;
};

/// Blocks of extern "C" { ... }.
std::vector<Place> blocks_of_extern_c(const std::string& text) {
  static const std::regex pattern("extern\\s*\"C\"\\s*\\{");
  std::vector<Place> blocks;
  for (std::sregex_iterator found(text.begin(), text.end(), pattern), none; found != none; ++found) {
    const auto begin = static_cast<std::size_t>(found->position() + found->length() - 1);
    blocks.push_back({begin, behind_brackets(text, begin)});
  }
  return blocks;
}

/// True if the declaration around `at` begins with extern "C".
bool is_extern_c(const std::string& text, std::size_t at) {
  static const std::regex pattern("extern\\s*\"C\"");
  const std::size_t previous = text.find_last_of(";{}", at);
  return std::regex_search(text.substr(previous == std::string::npos ? 0 : previous, at - previous), pattern);
}

/// The name and the end of the definition of the kernel whose word of kKernelWord ends at `begin`; no name if it is only declared.
struct Kernel {
  std::string name;
  std::size_t end = 0;
};
Kernel kernel_at(const std::string& text, std::size_t begin) {
  const std::size_t parameters = text.find('(', begin);
  if (parameters == std::string::npos) return {{}, text.size()};
  const std::size_t body = text.find_first_not_of(" \t\n", behind_brackets(text, parameters));
  if (body == std::string::npos || text[body] != '{') return {{}, behind_brackets(text, parameters)};
  std::size_t last = parameters;
  while (!is_part_of_word(text[last - 1])) --last;
  std::size_t first = last;
  while (is_part_of_word(text[first - 1])) --first;
  return {text.substr(first, last - first), behind_brackets(text, body)};
}

std::string entry_code(const std::string& function, int number) {
  return " static const ::emulated_image::Registration emulated_entry_" + std::to_string(number) + "(::emulated_image::Runner<(&" +
         function + ")>::entry(\"" + function + "\"));";
}

}  // namespace

std::string host_code_of(const std::string& preprocessed, const std::vector<std::string>& expressions) {
  const std::string word = kKernelWord;
  const std::vector<Place> blocks = blocks_of_extern_c(preprocessed);
  std::string code;
  std::size_t copied = 0;
  int entries = 0;
  for (std::size_t at = find_word(preprocessed, word, 0); at != std::string::npos; at = find_word(preprocessed, word, copied)) {
    code.append(preprocessed, copied, at - copied);
    const Kernel kernel = kernel_at(preprocessed, at + word.size());
    code.append(preprocessed, at + word.size(), kernel.end - at - word.size());
    copied = kernel.end;
    const bool in_block =
        std::any_of(blocks.begin(), blocks.end(), [at](const Place& block) { return block.begin < at && at < block.end; });
    if (!kernel.name.empty() && (in_block || is_extern_c(preprocessed, at))) code += entry_code(kernel.name, entries++);
  }
  code.append(preprocessed, copied);
  code += '\n';
  for (const std::string& expression : expressions) code += entry_code(expression, entries++) + '\n';
  return code;
}

std::string unsupported_word(const std::string& preprocessed) {
  constexpr std::array kWords{"__shared__",       "__syncthreads",   "__syncwarp",   "__shfl_sync",
                              "__shfl_down_sync", "__shfl_xor_sync", "__ballot_sync"};
  const auto found =
      std::find_if(kWords.begin(), kWords.end(), [&](const char* word) { return find_word(preprocessed, word, 0) != std::string::npos; });
  return found == kWords.end() ? "" : *found;
}

std::string as_messages_of_nvrtc(const std::string& messages, const std::string& program) {
  static const std::regex error("^(.*?):(\\d+)(?::\\d+)?: (?:fatal )?error: (.*)$");
  static const std::regex undefined(
      "^(?:use of undeclared identifier '(\\w+)'.*|'(\\w+)' (?:was not declared in this scope|does not name a type).*)$");
  std::istringstream lines(messages);
  std::string written;
  int errors = 0;
  for (std::string line; std::getline(lines, line);) {
    std::smatch part, name;
    if (!std::regex_match(line, part, error)) continue;
    std::string message = part[3];
    const std::string said = message;
    if (std::regex_match(said, name, undefined)) message = "identifier \"" + name[1].str() + name[2].str() + "\" is undefined";
    written += part[1].str() + "(" + part[2].str() + "): error: " + message + "\n\n";
    ++errors;
  }
  if (errors == 0) return messages;
  return written + std::to_string(errors) + (errors == 1 ? " error" : " errors") + " detected in the compilation of \"" + program + "\".\n";
}

}  // namespace emulation
