#include "profiler/model/exported/archive.h"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/library_message.h"
#include "profiler/model/exported/arguments.h"
#include "profiler/model/files/torch_file.h"

namespace mptune::profiler {
namespace {

constexpr std::int64_t kMostTensorBytes = std::int64_t{1} << 50;
const char* const kAgain = "export the model again: torch.export.save(torch.export.export(model, inputs), path), or mptune_export.py";

class ArchiveReader {
 public:
  explicit ArchiveReader(const std::string& path) : path_(path), reader_(path), records_(records_of(reader_)) {
    file_bytes_ = static_cast<std::int64_t>(std::filesystem::file_size(path));
  }

  ExportedArchive read() {
    check_kind();
    const std::string model = model_name();
    ExportedArchive archive;
    archive.program = read_program(text("models/" + model + ".json"), path_);
    read_tensors("data/weights/", model + "_weights_config.json", archive);
    read_tensors("data/constants/", model + "_constants_config.json", archive);
    check_complete(archive);
    archive.sample_inputs = sample_inputs(model, archive.program);
    add_reference(archive);
    return archive;
  }

 private:
  static std::set<std::string> records_of(caffe2::serialize::PyTorchStreamReader& reader) {
    const std::vector<std::string> names = reader.getAllRecords();
    return {names.begin(), names.end()};
  }
  [[nodiscard]] bool has(const std::string& record) const { return records_.count(record) > 0; }
  [[noreturn]] void refuse(const std::string& what, const std::string& remedy) const { throw Error(what, path_, remedy); }

  void check_kind() const {
    if (has("constants.pkl"))
      refuse("a TorchScript archive, no exported program", "give it the name of a TorchScript model (.pt), or export the model again");
    if (has("serialized_exported_program.json"))
      refuse("an exported program in the layout of an older torch", "export it again with torch 2.8 or later");
    if (has("data.pkl")) refuse("a checkpoint of torch.save: it holds weights and no program", kAgain);
    if (has("archive_format")) return;
    refuse("an archive that is not an exported program", kAgain);
  }

  void add_reference(ExportedArchive& archive) {
    const std::string reference = has("extra/mptune.json") ? text("extra/mptune.json") : "";
    if (reference.empty()) return;
    archive.reference = read_reference(reference, path_);
    archive.program.batch_limit = archive.reference->batch_limit;
    archive.program.cumulative_norms = archive.reference->cumulative_norms;
  }

  [[nodiscard]] std::string model_name() const {
    std::vector<std::string> names;
    for (const std::string& record : records_)
      if (record.starts_with("models/") && record.ends_with(".json")) names.push_back(record.substr(7, record.size() - 12));
    if (names.empty()) refuse("it holds no exported program (a package of AOTInductor alone?)", kAgain);
    if (names.size() > 1) refuse("it holds " + std::to_string(names.size()) + " programs", "save one program to a file");
    return names.front();
  }

  std::int64_t bytes_of(const std::string& record) {
    if (!has(record)) refuse("record '" + record + "' is missing", "the file is truncated or damaged: " + std::string(kAgain));
    const auto bytes = static_cast<std::int64_t>(reader_.getRecordSize(record));
    if (bytes > file_bytes_) refuse("record '" + record + "' claims more bytes than the file has", kAgain);
    return bytes;
  }
  std::string text(const std::string& record) {
    std::string content(as_index(bytes_of(record)), '\0');
    reader_.getRecord(record, content.data(), content.size());
    return content;
  }

  void check_complete(const ExportedArchive& archive) const {
    for (const ProgramInput& input : archive.program.inputs) {
      const bool stored = input.kind != ProgramInput::Kind::user && input.kind != ProgramInput::Kind::constant;
      if (stored && archive.tensors.count(input.name) == 0)
        refuse("'" + input.name + "' has no weights in it", "the file is damaged: " + std::string(kAgain));
    }
    for (const ProgramOutput& output : archive.program.outputs)
      if (output.kind == ProgramOutput::Kind::buffer_mutation)
        refuse("the program was decomposed, and hands out what '" + output.name + "' becomes instead of writing it",
               "save what torch.export.export returns, without run_decompositions()");
  }

  void read_tensors(const std::string& folder, const std::string& config, ExportedArchive& archive) {
    if (!has(folder + config)) return;
    const auto stored = read_stored_tensors(text(folder + config), path_);
    bool empty = false;
    stored_ = false;
    for (const auto& [name, tensor] : stored) {
      if (tensor.pickled)
        refuse("'" + name + "' is pickled (a tensor subclass or a custom object)", "make it a plain tensor before the export");
      archive.tensors[name] = tensor_of(folder + tensor.record, name, tensor, empty);
    }
    if (empty && stored_) refuse("some of its weights are empty", "the file is damaged: " + std::string(kAgain));
    archive.without_weights = archive.without_weights || empty;
  }

  /// Reads the example inputs. They are optional: missing ones, and Python objects that can't be read, are ignored.
  std::vector<at::Tensor> sample_inputs(const std::string& model, const ExportedProgram& program) {
    const std::string record = "data/sample_inputs/" + model + ".pt";
    if (!has(record)) return {};
    try {
      std::vector<at::Tensor> samples = read_saved_tensors(text(record), path_);
      return fit(samples, program) ? samples : std::vector<at::Tensor>();
    } catch (const Error&) {
      return {};
    }
  }

  /// True if there is one sample per tensor input, with its type and number of dimensions.
  [[nodiscard]] bool fit(const std::vector<at::Tensor>& samples, const ExportedProgram& program) const {
    std::size_t next = 0;
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      const auto* value = std::get_if<ProgramValue>(&program.graph.inputs[i]);
      if (value == nullptr || program.inputs[i].kind != ProgramInput::Kind::user) continue;
      const auto& about = program.graph.values[as_index(value->index)].tensor;
      if (next >= samples.size() || !about || about->sizes.size() != as_index(samples[next].dim())) return false;
      if (scalar_type(program.graph.values[as_index(value->index)].name, about->scalar_type) != samples[next].scalar_type()) return false;
      ++next;
    }
    return next == samples.size();
  }

  /// Returns sizes as numbers: a stored tensor has no symbolic sizes.
  std::vector<std::int64_t> numbers(const std::string& name, const std::vector<SymbolicSize>& sizes) const {
    std::vector<std::int64_t> numbers;
    for (const SymbolicSize& size : sizes) {
      const auto number = size.is_number() ? size.value({}) : std::nullopt;
      if (!number || *number < 0 || *number > kMostTensorBytes) refuse("the shape of '" + name + "' is not valid", kAgain);
      numbers.push_back(*number);
    }
    return numbers;
  }

  at::Tensor tensor_of(const std::string& record, const std::string& name, const StoredTensor& stored, bool& empty) {
    const auto sizes = numbers(name, stored.description.sizes);
    const auto strides = numbers(name, stored.description.strides);
    const auto offset = numbers(name, {stored.description.storage_offset}).front();
    const at::ScalarType type = scalar_type(name, stored.description.scalar_type);
    const auto element = static_cast<std::int64_t>(c10::elementSize(type));
    std::int64_t needed = 0, elements = 1;
    bool overflow = false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::int64_t reach = 0;
      overflow = overflow || __builtin_mul_overflow(std::max<std::int64_t>(0, sizes[i] - 1), strides[i], &reach) ||
                 __builtin_add_overflow(needed, reach, &needed) || __builtin_mul_overflow(elements, sizes[i], &elements);
    }
    if (overflow || needed > kMostTensorBytes || offset > kMostTensorBytes) refuse("the shape of '" + name + "' is not valid", kAgain);
    const std::int64_t bytes = bytes_of(record);
    if (elements > 0 && bytes == 0) {
      // The model had no storage (meta device). All parameters then share one empty record, without being tied.
      empty = true;
      without_storage_ += static_cast<double>(elements) * static_cast<double>(element);
      const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
      if (without_storage_ > memory)
        refuse("it holds no weights, and those that it describes are larger than this machine's memory",
               "export a model with weights, or a smaller one");
      return at::empty(sizes, type);
    }
    stored_ = stored_ || elements > 0;
    // Rejects strides of 0, by which a small record could claim any number of elements.
    if (elements > 0 && ((needed + offset + 1) * element > bytes || elements > bytes / element))
      refuse("'" + name + "' is larger than its record of " + std::to_string(bytes) + " bytes",
             "the file is damaged: " + std::string(kAgain));
    return storage_of(record, bytes, type).as_strided(sizes, strides, offset);
  }

  at::ScalarType scalar_type(const std::string& name, int code) const {
    try {
      return scalar_type_of(code);
    } catch (const std::invalid_argument& unknown) {
      refuse("'" + name + "' has an " + unknown.what(), kAgain);
    }
  }

  at::Tensor storage_of(const std::string& record, std::int64_t bytes, at::ScalarType type) {
    const auto found = storages_.find(record);
    if (found != storages_.end()) return found->second.view(type);
    stored_bytes_ += bytes;
    if (stored_bytes_ > file_bytes_) refuse("its records claim more bytes than the file has", kAgain);
    at::Tensor storage = at::empty({bytes}, at::kByte);
    reader_.getRecord(record, storage.data_ptr(), as_index(bytes));
    const auto element = static_cast<std::int64_t>(c10::elementSize(type));
    storage = storage.narrow(0, 0, bytes / element * element);
    return storages_.emplace(record, storage).first->second.view(type);
  }

  std::string path_;
  caffe2::serialize::PyTorchStreamReader reader_;
  std::set<std::string> records_;
  std::int64_t file_bytes_ = 0, stored_bytes_ = 0;
  std::map<std::string, at::Tensor> storages_;
  double without_storage_ = 0;  ///< bytes that tensors without a record would take
  bool stored_ = false;         ///< at least one tensor has a record
};

}  // namespace

bool is_exported_archive(const std::string& path) {
  try {
    caffe2::serialize::PyTorchStreamReader reader(path);
    return reader.hasRecord("archive_format") || reader.hasRecord("serialized_exported_program.json");
  } catch (const c10::Error&) {
    return false;  // the next reader reports the error
  }
}

ExportedArchive read_exported_archive(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) throw Error("there is no such file", path, "name an exported program (.pt2)");
  try {
    return ArchiveReader(path).read();
  } catch (const c10::Error& error) {
    throw Error("not a readable archive: " + library_message(error.what_without_backtrace()), path, kAgain);
  }
}

}  // namespace mptune::profiler
