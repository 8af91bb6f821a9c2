import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;

/** Publishes by java.net.http as it is: `java Publisher.java URL TOPIC`; prints each status. */
class Publisher {
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    public static void main(String[] args) throws Exception {
        URI topics = URI.create(args[0] + "/topics/");
        URI topic = topics.resolve(args[1]);
        send("POST", topic, "\"first\"");
        send("PUT", topic, "{\"name\": \"" + args[1] + "\", \"description\": \"by Java\"}");
        send("POST", URI.create(topic + "/batch"), "[\"second\", \"third\"]");
        send("POST", topic, "\"fourth\"");
        send("GET", topic, "");
    }

    private static void send(String method, URI uri, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(uri)
                .header("Content-Type", "application/json")
                .method(method, body.isEmpty() ? BodyPublishers.noBody() : BodyPublishers.ofString(body))
                .build();
        System.out.println(method + " " + CLIENT.send(request, BodyHandlers.ofString()).statusCode());
    }
}
