// The functions of NVRTC that LibTorch and mptune call. Types are declared here because NVRTC's header may be absent.
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "host_compiler.h"
#include "kernel_image.h"
#include "kernel_text.h"
#include "options.h"
#include "prelude.h"

#define NVRTC_FUNCTION extern "C" __attribute__((visibility("default")))

namespace emulation {
namespace {

enum NvrtcResult {
  kSuccess = 0,
  kProgramCreationFailed = 2,
  kInvalidInput = 3,
  kInvalidProgram = 4,
  kInvalidOption = 5,
  kCompilationFailed = 6,
  kNoExpressionsAfterCompilation = 8,
  kNoLoweredNamesBeforeCompilation = 9,
  kExpressionNotValid = 10,
  kInternalError = 11,
};

struct Header {
  std::string name, text;
};

struct Program {
  std::string name, code;
  std::vector<Header> headers;
  std::vector<std::string> expressions;
  bool was_compiled = false;
  bool has_machine_code = false;
  std::string image, log;
};

/// The code with all includes and macros replaced, in `text`.
CompilerRun preprocess(const Program& program, const CompileOptions& options, const TemporaryFolder& folder, std::string& text) {
  for (const Header& header : program.headers) (void)folder.write("headers/" + header.name, header.text);
  const std::string prelude =
      folder.write("prelude", std::string("#define __CUDA_ARCH__ ") + std::to_string(10 * options.architecture) + kPrelude);
  const std::string code = folder.write("code", "#line 1 \"" + program.name + "\"\n" + program.code);
  const std::string output = folder.path() + "/preprocessed";
  std::vector<std::string> arguments{"-x",       "c++",  "-std=" + options.standard, "-E", "-w", "-fno-diagnostics-show-caret",
                                     "-include", prelude};
  arguments.insert(arguments.end(), options.for_preprocessor.begin(), options.for_preprocessor.end());
  arguments.insert(arguments.end(), {"-I" + folder.path() + "/headers", code, "-o", output});
  CompilerRun run = run_compiler(folder, arguments);
  text = contents_of(output);
  return run;
}

CompilerRun compile(const std::string& code, const CompileOptions& options, const TemporaryFolder& folder, std::string& image) {
  const std::string file = folder.write("kernels", code);
  const std::string output = folder.path() + "/image";
  const CompilerRun run =
      run_compiler(folder, {"-x", "c++", "-std=" + options.standard, "-O2", "-fPIC", "-shared", "-w", "-fvisibility=hidden",
                            "-fno-diagnostics-show-caret", "-fno-exceptions", "-fno-rtti", "-Wl,-s", file, "-o", output});
  image = contents_of(output);
  return run;
}

NvrtcResult failed(Program& program, const CompilerRun& run) {
  program.log = as_messages_of_nvrtc(run.messages, program.name);
  return kCompilationFailed;
}

NvrtcResult build(Program& program, const CompileOptions& options) {
  const TemporaryFolder folder;
  if (folder.path().empty()) return kInternalError;
  std::string text, image;
  if (const CompilerRun run = preprocess(program, options, folder, text); !run.succeeded) return failed(program, run);
  if (const std::string word = unsupported_word(text); !word.empty()) {
    program.log = program.name + "(1): error: " + word + " is not emulated\n";
    return kCompilationFailed;
  }
  if (const CompilerRun run = compile(host_code_of(text, program.expressions), options, folder, image); !run.succeeded)
    return failed(program, run);
  if (image_bytes(image.data()) != image.size()) {
    program.log = program.name + "(1): error: the host compiler made no shared object whose size its header tells\n";
    return kInternalError;
  }
  program.image = std::move(image);
  program.has_machine_code = options.machine_code;
  return kSuccess;
}

const char* name_of(int result) {
  switch (result) {
    case kSuccess:
      return "NVRTC_SUCCESS";
    case kProgramCreationFailed:
      return "NVRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case kInvalidInput:
      return "NVRTC_ERROR_INVALID_INPUT";
    case kInvalidProgram:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case kInvalidOption:
      return "NVRTC_ERROR_INVALID_OPTION";
    case kCompilationFailed:
      return "NVRTC_ERROR_COMPILATION";
    case kNoExpressionsAfterCompilation:
      return "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION";
    case kNoLoweredNamesBeforeCompilation:
      return "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION";
    case kExpressionNotValid:
      return "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
    case kInternalError:
      return "NVRTC_ERROR_INTERNAL_ERROR";
    default:
      return "NVRTC_ERROR unknown";
  }
}

/// A name expression without what may stand before the name.
std::string plain(const std::string& expression) {
  const std::size_t begin = expression.find_first_not_of(" \t&");
  return begin == std::string::npos ? std::string() : expression.substr(begin);
}

}  // namespace
}  // namespace emulation

using emulation::NvrtcResult;
using emulation::Program;

NVRTC_FUNCTION NvrtcResult nvrtcVersion(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) return emulation::kInvalidInput;
  *major = 13;
  *minor = 0;
  return emulation::kSuccess;
}

NVRTC_FUNCTION const char* nvrtcGetErrorString(int result) {
  return emulation::name_of(result);
}

NVRTC_FUNCTION NvrtcResult nvrtcCreateProgram(Program** program, const char* code, const char* name, int headers, const char* const* texts,
                                              const char* const* names) {
  if (program == nullptr || code == nullptr || headers < 0 || (headers > 0 && (texts == nullptr || names == nullptr)))
    return emulation::kInvalidInput;
  *program = new Program;
  (*program)->name = name == nullptr || *name == '\0' ? "default_program" : name;
  (*program)->code = code;
  for (int i = 0; i < headers; ++i) (*program)->headers.push_back({names[i], texts[i]});
  return emulation::kSuccess;
}

NVRTC_FUNCTION NvrtcResult nvrtcDestroyProgram(Program** program) {
  if (program == nullptr || *program == nullptr) return emulation::kInvalidProgram;
  delete *program;
  *program = nullptr;
  return emulation::kSuccess;
}

NVRTC_FUNCTION NvrtcResult nvrtcCompileProgram(Program* program, int count, const char* const* texts) {
  if (program == nullptr) return emulation::kInvalidProgram;
  if (count < 0 || (count > 0 && texts == nullptr)) return emulation::kInvalidInput;
  const emulation::CompileOptions options = emulation::parse_options(std::vector<std::string>(texts, texts + count));
  program->was_compiled = true;
  program->image.clear();
  program->log = options.problem;
  return options.problem.empty() ? emulation::build(*program, options) : emulation::kInvalidOption;
}

// PTX can't be told from machine code here: both are the shared object.
NVRTC_FUNCTION NvrtcResult nvrtcGetPTXSize(Program* program, std::size_t* bytes) {
  if (program == nullptr) return emulation::kInvalidProgram;
  *bytes = program->image.size();
  return program->image.empty() ? emulation::kInvalidProgram : emulation::kSuccess;
}

NVRTC_FUNCTION NvrtcResult nvrtcGetPTX(Program* program, char* code) {
  if (program == nullptr || program->image.empty()) return emulation::kInvalidProgram;
  std::memcpy(code, program->image.data(), program->image.size());
  return emulation::kSuccess;
}

NVRTC_FUNCTION NvrtcResult nvrtcGetCUBINSize(Program* program, std::size_t* bytes) {
  if (program == nullptr) return emulation::kInvalidProgram;
  *bytes = program->has_machine_code ? program->image.size() : 0;
  return emulation::kSuccess;
}

NVRTC_FUNCTION NvrtcResult nvrtcGetCUBIN(Program* program, char* code) {
  if (program == nullptr || !program->has_machine_code) return emulation::kInvalidProgram;
  return nvrtcGetPTX(program, code);
}

NVRTC_FUNCTION NvrtcResult nvrtcGetProgramLogSize(Program* program, std::size_t* bytes) {
  if (program == nullptr) return emulation::kInvalidProgram;
  *bytes = program->log.size() + 1;
  return emulation::kSuccess;
}

NVRTC_FUNCTION NvrtcResult nvrtcGetProgramLog(Program* program, char* log) {
  if (program == nullptr) return emulation::kInvalidProgram;
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return emulation::kSuccess;
}

NVRTC_FUNCTION NvrtcResult nvrtcAddNameExpression(Program* program, const char* expression) {
  if (program == nullptr) return emulation::kInvalidProgram;
  if (program->was_compiled) return emulation::kNoExpressionsAfterCompilation;
  program->expressions.push_back(emulation::plain(expression));
  return emulation::kSuccess;
}

// The expression itself: no code here is looked up by a mangled name.
NVRTC_FUNCTION NvrtcResult nvrtcGetLoweredName(Program* program, const char* expression, const char** name) {
  if (program == nullptr) return emulation::kInvalidProgram;
  if (!program->was_compiled) return emulation::kNoLoweredNamesBeforeCompilation;
  const std::string wanted = emulation::plain(expression);
  for (const std::string& known : program->expressions)
    if (known == wanted) {
      *name = known.c_str();
      return emulation::kSuccess;
    }
  return emulation::kExpressionNotValid;
}
