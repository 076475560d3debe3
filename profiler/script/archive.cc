#include "profiler/script/archive.h"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <string_view>
#include <vector>

#include "profiler/base/error.h"

namespace mptune::profiler {
namespace {

using caffe2::serialize::PyTorchStreamReader;

constexpr const char* kHowToExport = "write the Python model with mptune_export.py (net.pt2)";
constexpr const char* kHowToSave = "write the model as an nn.Sequential and save it with torch.jit.script(model).save(FILE)";
constexpr int kDeepest = 256;
constexpr std::uintmax_t kMostCodeBytes = 256 << 20;
constexpr std::size_t kIndent = 2;

// Nesting depth of brackets and blocks. Each level takes several recursive calls of LibTorch's parser.
int depth_of(std::string_view code) {
  int brackets = 0, deepest = 0;
  char quote = '\0';
  std::size_t indent = 0;
  bool line_begins = true;
  for (std::size_t i = 0; i < code.size(); ++i) {
    const char c = code[i];
    if (quote != '\0') {
      i += c == '\\' ? 1 : 0;
      quote = c == quote ? '\0' : quote;
      continue;
    }
    indent = line_begins && c == ' ' ? indent + 1 : indent;
    if (line_begins && c != ' ') {
      deepest = std::max(deepest, static_cast<int>(indent / kIndent));
      line_begins = false;
    }
    if (c == '\n') {
      line_begins = true;
      indent = 0;
    }
    quote = c == '"' || c == '\'' ? c : '\0';
    brackets += c == '(' || c == '[' || c == '{' ? 1 : (c == ')' || c == ']' || c == '}' ? -1 : 0);
    deepest = std::max(deepest, brackets);
  }
  return deepest;
}

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
      if (depth_of({static_cast<const char*>(data.get()), bytes}) > kDeepest)
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
