#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/view.h"

namespace waybill::cli {

Result<int> show_command(const Context& context) {
  Client client(client_options(context));
  TRY(client.connect());
  json::object params = caller_params(context);
  params["job"] = context.parsed.operands.front();
  TRY_ASSIGN(const json::object answer, client.call("job.show", params));
  if (context.json) {
    print_json(answer);
  } else {
    print(job_page(object_of(answer, "job")));
  }
  TRY(confirm(client, context, text_of(answer, "reported")));
  return 0;
}

}  // namespace waybill::cli
