#include "profiler/model/script/archive.h"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/base/error.h"

namespace mptune::profiler {
namespace {

using caffe2::serialize::PyTorchStreamReader;

constexpr const char* kHowToExport = "write the Python model with mptune_export.py (net.pt2)";
constexpr const char* kHowToSave = "write the model as an nn.Sequential and save it with torch.jit.script(model).save(FILE)";
constexpr int kDeepest = 256, kMostOperators = 1000;
constexpr std::uintmax_t kMostCodeBytes = 256 << 20;
constexpr std::size_t kIndent = 2;

// How deeply code nests, whatever it means: brackets and blocks, and the operators that are open at one place, since a chain of operators
// makes a tree that is as deep. Each level takes several recursive calls of LibTorch's parser and compiler.
class Nesting {
 public:
  explicit Nesting(std::string_view code) {
    for (position_ = 0; position_ < code.size(); ++position_) {
      const char c = code[position_];
      if (quote_ != '\0') {
        position_ += c == '\\' ? 1 : 0;
        quote_ = c == quote_ ? '\0' : quote_;
      } else if (c == '"' || c == '\'') {
        quote_ = c;
        begin_line();
      } else if (c == '\n') {
        end_line();
      } else if (c == ' ' && line_begins_) {
        ++indent_;
      } else {
        begin_line();
        read(code, c);
      }
    }
  }
  [[nodiscard]] int levels() const { return levels_; }
  [[nodiscard]] int operators() const { return most_operators_; }

 private:
  void begin_line() {
    if (line_begins_) levels_ = std::max(levels_, static_cast<int>(indent_ / kIndent));
    line_begins_ = false;
  }
  void end_line() {
    line_begins_ = true;
    indent_ = 0;
    if (open_.size() == 1) reset();
  }
  void read(std::string_view code, char c) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_') {
      std::size_t end = position_;
      while (end < code.size() && (std::isalnum(static_cast<unsigned char>(code[end])) != 0 || code[end] == '_')) ++end;
      constexpr std::string_view words[] = {"and", "or", "not", "if", "else", "in", "is", "lambda", "for"};
      if (std::ranges::find(words, code.substr(position_, end - position_)) != std::end(words)) count();
      position_ = end - 1;
    } else if (c == '(' || c == '[' || c == '{') {
      count();  // a call or a subscript
      open_.push_back(0);
      levels_ = std::max(levels_, static_cast<int>(open_.size()) - 1);
    } else if (c == ')' || c == ']' || c == '}') {
      reset();
      if (open_.size() > 1) open_.pop_back();
    } else if (c == ',') {
      reset();
    } else if (std::isdigit(static_cast<unsigned char>(c)) == 0 && c != ' ') {
      count();
    }
  }
  void count() {
    ++open_.back();
    most_operators_ = std::max(most_operators_, ++operators_);
  }
  void reset() { operators_ -= std::exchange(open_.back(), 0); }

  std::size_t position_ = 0, indent_ = 0;
  char quote_ = '\0';
  bool line_begins_ = true;
  std::vector<int> open_{0};  ///< operators since the last comma, for each open bracket
  int operators_ = 0, most_operators_ = 0, levels_ = 0;
};

bool is_code(const std::string& name) {
  return name.starts_with("code/") && name.ends_with(".py");
}

// Tensors are not compressed: a record that claims more bytes than the file has is invalid and must not be allocated. Code may be
// compressed.
void check_sizes(PyTorchStreamReader& reader, const std::vector<std::string>& names, const std::string& path) {
  std::uintmax_t stored = std::filesystem::file_size(path), code = kMostCodeBytes;
  for (const auto& name : names) {
    const auto bytes = reader.getRecordSize(name);
    auto& left = name.starts_with("code/") ? code : stored;
    if (bytes > left) throw Error("its record '" + name + "' claims to hold more than the file can", path, kHowToSave);
    left -= bytes;
  }
}

void check_code(PyTorchStreamReader& reader, const std::vector<std::string>& names, const std::string& path) {
  for (const auto& name : names) {
    if (is_code(name)) {
      const auto [data, bytes] = reader.getRecord(name);
      const Nesting nesting({static_cast<const char*>(data.get()), bytes});
      if (nesting.levels() > kDeepest || nesting.operators() > kMostOperators)
        throw Error("its code '" + name + "' is nested too deeply to be read", path, kHowToSave);
    }
  }
}

void check_kind(const std::vector<std::string>& names, const std::string& path) {
  const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
  const bool code = std::ranges::any_of(names, is_code);
  if (has("data.pkl") && !code) {
    throw Error("this is a checkpoint of torch.save: tensors without a model", path,
                std::string(kHowToExport) + "; run --load takes its weights");
  }
  if (has("model.json")) throw Error("this is a TorchScript model in the layout of PyTorch 1.0", path, kHowToSave);
  if (!has("data.pkl") || !has("constants.pkl") || !code) throw Error("the archive holds no TorchScript model", path, kHowToSave);
}

}  // namespace

void check_script_archive(const std::string& path) {
  try {
    PyTorchStreamReader reader(path);
    const auto names = reader.getAllRecords();
    check_sizes(reader, names, path);
    check_kind(names, path);
    check_code(reader, names, path);
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    throw Error("the archive is damaged, cut short or none of PyTorch's", path, path.ends_with(".pt2") ? kHowToExport : kHowToSave);
  }
}

}  // namespace mptune::profiler
