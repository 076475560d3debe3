// Runs a fuzz target without a fuzzer: on given files, or on inputs that it derives from a small hand-made corpus by a fuzzer's mutations.
// The same seed gives the same inputs.
//
//     replay_kineto_fuzz [FILE...]
//     replay_kineto_fuzz --write FOLDER     the corpus, for a fuzzer to start from

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kMutants = 40000;

std::string thread(int stage, int tid, const std::string& lane) {
  return R"({"ph":"M","name":"thread_name","pid":0,"tid":)" + std::to_string(tid) + R"(,"args":{"name":"PP rank )" + std::to_string(stage) +
         ", TP rank 0, " + lane + "\"}},";
}

std::string row(const std::string& fields, int time) {
  return R"({"ph":"X",)" + fields + R"(,"ts":)" + std::to_string(time) + R"(.25,"dur":3.5,"args":{"step":)" + std::to_string(time / 40) +
         R"(,"mb_id":)" + std::to_string(time % 3 - 1) + R"(,"model_chunk":0,"device":)" + std::to_string(time % 2) +
         R"(,"stream":7,"correlation":)" + std::to_string(time % 7) + R"(,"grid":[1,2,3],"bytes":64}},)";
}

std::vector<std::string> profiles() {
  const std::string costs = " -- forward_compute_time=1.5, backward_compute_time=0, activation_size=";
  return {"node1 -- Input0" + costs + "0.0, parameter_size=0.000\nnode2 -- LSTM(2, 1)" + costs +
              "[9.0; 4.0], parameter_size=64\nnode3 -- ReLU(inplace)" + costs + "8, parameter_size=0\nnode4 -- __getitem__(0)" + costs +
              "8, parameter_size=1e3\n\n\tnode1 -- node2\n\tnode2 -- node3\n\tnode2 -- node4\n\tnode3 -- node4\n",
          "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,fwd_reserved,bwd_reserved\n"
          "embedding,173.631,1486.725,0.008,8.000,208.000,12.000,0.000,220.000\nenc-a,1,2,3,4,5,6,7,8\nenc-b,1,2,3,4,5,6,7,8\n\n"
          "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,fwd_reserved,bwd_reserved\n"
          "embedding,573.631,2486.725,0.032,32.000,208.000,48.000,0.000,520.000\nenc-a,1,2,3,4,5,6,7,8\nenc-b,1,2,3,4,5,6,7,8\n",
          "1,2,4,8\n17.22, 24.83, 31.25,35.88\n",
          R"({"maxSizePerFPGA":17185374208.0,"maxFPGAs":6,"maxCPUs":1,"nodes":[)"
          R"({"name":"a","id":1,"supportedOnFpga":1,"cpuLatency":0.5,"fpgaLatency":0.25,"isBackwardNode":0,"colorClass":1,"size":8.0},)"
          R"({"name":"b","id":2,"supportedOnFpga":1,"cpuLatency":5,"fpgaLatency":2,"isBackwardNode":false,"colorClass":2,"size":9},)"
          R"({"name":"agrad","id":33,"supportedOnFpga":0,"cpuLatency":1,"fpgaLatency":1,"isBackwardNode":true,"colorClass":1,"size":7}],)"
          R"("edges":[{"sourceId":1,"destId":2,"cost":0.5,"size":4},{"sourceId":2,"destId":33,"cost":0.1,"size":4}]})"};
}

std::string tensor_meta(const std::string& first_size) {
  return R"({"dtype":7,"sizes":[)" + first_size + R"({"as_int":8}],"strides":[)" + (first_size.empty() ? "" : R"({"as_int":8},)") +
         R"({"as_int":1}],"requires_grad":true,"device":{"type":"cpu"},"storage_offset":{"as_int":0},"layout":7})";
}

std::string exported_program() {
  const std::string batch = R"j({"as_expr":{"expr_str":"Mul(Integer(2), Symbol('s1', positive=True, integer=True))"}},)j";
  const std::string graph =
      R"({"inputs":[{"as_tensor":{"name":"w"}},{"as_tensor":{"name":"x"}}],"outputs":[{"as_tensor":{"name":"z"}}],"nodes":[)"
      R"({"target":"torch.ops.aten.sym_size.int","inputs":[{"name":"self","arg":{"as_tensor":{"name":"x"}}},{"name":"dim","arg":{"as_int":0}}],)"
      R"("outputs":[{"as_sym_int":{"as_name":"n"}}]},)"
      R"({"target":"torch.ops.aten.linear.default","inputs":[{"name":"input","arg":{"as_tensor":{"name":"x"}}},)"
      R"({"name":"weight","arg":{"as_tensor":{"name":"w"}}}],"outputs":[{"as_tensor":{"name":"y"}}],)"
      R"("metadata":{"stack_trace":"File \"a.py\", line 3, in f\n  x","nn_module_stack":"L__self__fc,fc,torch.nn.Linear"}},)"
      R"({"target":"torch.ops.aten.view.default","inputs":[{"name":"self","arg":{"as_tensor":{"name":"y"}}},)"
      R"({"name":"size","arg":{"as_sym_ints":[{"as_name":"n"},{"as_int":8}]}}],"outputs":[{"as_tensor":{"name":"z"}}]}],)"
      R"("tensor_values":{"x":)" +
      tensor_meta(batch) + R"(,"w":)" + tensor_meta(R"({"as_int":8},)") + R"(},"sym_int_values":{"n":)" +
      batch.substr(0, batch.size() - 1) + R"(},"sym_bool_values":{}})";
  return R"({"graph_module":{"graph":)" + graph +
         R"(,"signature":{"input_specs":[{"parameter":{"arg":{"name":"w"},"parameter_name":"fc.weight"}},{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],)"
         R"("output_specs":[{"user_output":{"arg":{"as_tensor":{"name":"z"}}}}]},"module_call_graph":[]},)"
         R"("range_constraints":{"s1":{"min_val":1}},"schema_version":{"major":8,"minor":17},"verifiers":["TRAINING"],"torch_version":"2.11.0",)"
         R"j("guards_code":["2*L['x'].size()[0] >= (7 - L['x'].size()[1]) % 3 and 1 <= Max(L['x'].size()[1], 4) // 2 < 9"]})j";
}

std::vector<std::string> action_times() {
  const std::string first = R"({"1":{"total":9.5,"memory":1.5,"fwd_start":[0,1,2,3],"fwd_end":[1,2,3,4],"bwd_start":[5,6.5,8,9],)"
                            R"("bwd_end":[6,7,9,9.5],"fwd_minibatch":[0,1,0,1],"fwd_chunk":[0,0,1,1],"wgrad_start":[7],"wgrad_end":[8]}})";
  return {first, "[" + first + "," + first + "]", R"({"rank 0":)" + first + R"(,"rank 3":)" + first + "}",
          "run,iteration,rank,kind,nth,start_ms,end_ms\na,1,0,fwd,0,0.5,1\na,1,0,bwd,0,3,4\na,1,1,fwd,0,1,2\na,1,1,bwd,0,2,3\n"
          "a,2,0,fwd,0,0,1\na,2,0,wgrad,0,4,5\na,2,1,fwd,0,1,2\n"};
}

std::vector<std::string> corpus() {
  std::string timeline =
      "[" + thread(0, 0, "compute") + thread(0, 1, "pp-comm") + thread(1, 2, "compute") + thread(1, 3, "pp-comm") + thread(0, 4, "dp-comm");
  int time = 0;
  for (const char* fields : {R"("name":"params-all-gather","pid":0,"tid":4)", R"("name":"forward-compute","pid":0,"tid":0)",
                             R"("name":"forward-send","pid":0,"tid":1)", R"("name":"forward-recv","pid":0,"tid":3)",
                             R"("name":"forward-compute","pid":0,"tid":2)", R"("name":"backward-compute","pid":0,"tid":2)",
                             R"("name":"backward-send","pid":0,"tid":3)", R"("name":"backward-recv","pid":0,"tid":1)",
                             R"("name":"backward-compute","pid":0,"tid":0)", R"("name":"optimizer-clip-main-grad","pid":0,"tid":4)",
                             R"("name":"optimizer","pid":0,"tid":0)", R"("name":"forward-compute","pid":1,"tid":0)"})
    timeline += row(fields, time += 5);
  timeline.back() = ']';
  std::string events;
  for (const char* fields :
       {R"("cat":"user_annotation","name":"ProfilerStep#1","pid":9,"tid":9)",
        R"("cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9)", R"("cat":"kernel","name":"gemm","pid":0,"tid":7)",
        R"("cat":"gpu_memcpy","name":"Memcpy HtoD","pid":0,"tid":7)", R"("cat":"gpu_memset","name":"Memset","pid":1,"tid":7)",
        R"("cat":"cuda_sync","name":"Stream Sync","pid":1,"tid":7)", R"("cat":"user_annotation","name":"ProfilerStep#2","pid":9,"tid":9)",
        R"("cat":"kernel","name":"ncclSum","pid":1,"tid":7)"})
    events += row(fields, time += 4);
  events.back() = ']';
  std::vector<std::string> seeds = {
      "",
      "[]",
      "{}",
      exported_program(),
      R"({"config":{"w":{"path_name":"weight_0","is_param":true,"use_pickle":false,"tensor_meta":)" + tensor_meta("") + "}}}",
      R"({"deviceProperties":[{"id":0,"name":"GPU","totalGlobalMem":1}],"baseTimeNanoseconds":5,"traceEvents":[)" + events + "}",
      timeline};
  for (std::vector<std::string> more : {profiles(), action_times()})
    for (std::string& seed : more) seeds.push_back(std::move(seed));
  return seeds;
}

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

// Applies one mutation that tends to break parsers: changed bytes, numbers or structure, pieces moved or removed.
void mutate(std::string& text, std::mt19937& random) {
  static const std::vector<std::string> pieces = {"9223372036854775807",
                                                  "-1",
                                                  "1e999",
                                                  "1e17",
                                                  "0.0005",
                                                  "null",
                                                  "\"x\"",
                                                  "[",
                                                  "]",
                                                  "{",
                                                  "}",
                                                  "NaN",
                                                  ",",
                                                  ":",
                                                  "[[[[",
                                                  "{\"args\":{",
                                                  "-2305843009213693952",
                                                  "\\u0000",
                                                  "18446744073709551616"};
  if (text.empty()) return;
  const std::size_t at = random() % text.size();
  const std::size_t length = random() % 40;
  switch (random() % 5) {
    case 0:
      text[at] = static_cast<char>(random());
      break;
    case 1:
      text.replace(at, length, pieces[random() % pieces.size()]);
      break;
    case 2:
      text.insert(random() % text.size(), text.substr(at, length));
      break;
    case 3: {
      const std::size_t digit = text.find_first_of("0123456789", at);
      if (digit != std::string::npos) text.replace(digit, 1, pieces[random() % 5]);
      break;
    }
    default:
      text.erase(at, length);
  }
}

}  // namespace

int main(int count, char** files) {
  if (count == 3 && std::string(files[1]) == "--write") {
    int number = 0;
    for (const std::string& seed : corpus()) std::ofstream(files[2] + ("/seed" + std::to_string(number++)), std::ios::binary) << seed;
    return 0;
  }
  for (int i = 1; i < count; ++i) {
    std::ifstream file(files[i], std::ios::binary);
    run({std::istreambuf_iterator<char>(file), {}});
  }
  if (count > 1) return 0;
  const std::vector<std::string> seeds = corpus();
  for (const std::string& seed : seeds) run(seed);
  std::mt19937 random(1);
  for (int i = 0; i < kMutants; ++i) {
    std::string text = seeds[random() % seeds.size()];
    for (std::uint32_t changes = 1 + random() % 4; changes > 0; --changes) mutate(text, random);
    run(text);
  }
  std::printf("%d inputs\n", kMutants + static_cast<int>(seeds.size()));
  return 0;
}
