import io.fabric8.kubernetes.client.server.mock.KubernetesMixedDispatcher;
import io.fabric8.mockwebserver.dsl.HttpMethod;
import io.fabric8.mockwebserver.http.Buffer;
import io.fabric8.mockwebserver.http.MockResponse;
import io.fabric8.mockwebserver.http.RecordedRequest;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Two things that the mock server lacks: what is applied and not there is created, and a pod has a log. */
public class ServerSideApply extends KubernetesMixedDispatcher {
  private static final Pattern LOG = Pattern.compile("/api/v1/(namespaces/[^/]+/pods/[^/]+)/log(\\?.*)?");
  private final Path logs;

  public ServerSideApply(Map responses, String logs) {
    super(responses);
    this.logs = new java.io.File(logs).toPath();
  }

  public MockResponse dispatch(RecordedRequest request) {
    Matcher log = LOG.matcher(request.getPath());
    if (log.matches()) {
      return read(this.logs.resolve(log.group(1)));
    }
    byte[] body = request.getBody().getBytes(); // which goes as it is read
    MockResponse answer = super.dispatch(request);
    String kind = request.getHeader("Content-Type");
    if (answer.code() != 404 || kind == null || !kind.startsWith("application/apply-patch")) {
      return answer;
    }
    String path = request.getPath().split("\\?")[0];
    String parent = path.substring(0, path.lastIndexOf('/'));
    return super.dispatch(
        new RecordedRequest(
            request.getHttpVersion(), HttpMethod.POST, parent, request.getHeaders(), new Buffer(body)));
  }

  private static MockResponse read(Path log) {
    MockResponse answer = new MockResponse();
    try {
      return answer.setResponseCode(200).setBody(Files.readAllBytes(log));
    } catch (java.io.IOException error) {
      return answer.setResponseCode(404);
    }
  }
}
